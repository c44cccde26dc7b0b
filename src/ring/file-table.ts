// Remembers in which log file the full record of a recent job is, in shared memory of a fixed size.
//
// An entry is one int32: 8 bits of the id above the table's size, and the file's number in 24 bits. Written
// by the binlog thread alone, read by shards for stats-job.

const ENTRIES = 2 ** 20;
const FILE_BITS = 24;

export class FileTable {
  /** Bytes of shared memory for a table. */
  static readonly BYTES: number = ENTRIES * 4;
  readonly #entries: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.#entries = new Int32Array(buffer);
  }

  set(id: number, file: number): void {
    Atomics.store(this.#entries, id % ENTRIES, (tagOf(id) << FILE_BITS) | (file % 2 ** FILE_BITS));
  }

  /** The file, or 0 for a job that is not in the table. */
  find(id: number): number {
    const entry = Atomics.load(this.#entries, id % ENTRIES);
    return entry >>> FILE_BITS === tagOf(id) ? entry & (2 ** FILE_BITS - 1) : 0;
  }
}

const tagOf = (id: number): number => Math.floor(id / ENTRIES) % 256;
