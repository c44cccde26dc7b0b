// Maps recent jobs to the log file that holds their full record, in shared memory of a fixed size.
//
// An entry is one int32: 8 bits of the id above the table's size, and 24 bits of the file number.
// Only the log's thread writes entries; shards read them for stats-job.

import { assert } from "../base/assert.ts";

const ENTRIES = 2 ** 20;
const FILE_BITS = 24;

export class FileTable {
  /** Size of a table in bytes of shared memory. */
  static readonly BYTES: number = ENTRIES * 4;
  readonly #entries: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    assert(buffer.byteLength === FileTable.BYTES, "a file table fills its memory");
    this.#entries = new Int32Array(buffer);
  }

  set(id: number, file: number): void {
    assert(file > 0, "the full record of a job lies in a file");
    Atomics.store(this.#entries, id % ENTRIES, (tagOf(id) << FILE_BITS) | (file % 2 ** FILE_BITS));
  }

  /** Returns the file, or 0 for a job that is not in the table. */
  find(id: number): number {
    const entry = Atomics.load(this.#entries, id % ENTRIES);
    return entry >>> FILE_BITS === tagOf(id) ? entry & (2 ** FILE_BITS - 1) : 0;
  }
}

const tagOf = (id: number): number => Math.floor(id / ENTRIES) % 256;
