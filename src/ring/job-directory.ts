// Remembers on which shard a recent job lives, in shared memory of a fixed size.
//
// An entry is one int32: the id above the table's size in 24 bits, and the shard + 1 in 8. Whoever takes an
// id writes its entry before the put is sent, and a shard that a job has moved to writes it before anybody can
// see the job there. So a match was true when it was written: a shard that does not have the job looks whether
// the entry still names it, and if so nobody has the job. No match means "ask all shards", which is what
// happens to jobs older than the last million.

const ENTRIES_BITS = 20;
const ENTRIES = 2 ** ENTRIES_BITS;
const TAG_RANGE = 2 ** 24;

/** Returned by `find` for an id that is not in the table. */
export const UNKNOWN_SHARD = -1;

export class JobDirectory {
  /** Bytes of shared memory for a directory. */
  static readonly BYTES: number = ENTRIES * 4;
  readonly #entries: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.#entries = new Int32Array(buffer);
  }

  set(id: number, shard: number): void {
    const tag = Math.floor(id / ENTRIES) % TAG_RANGE;
    Atomics.store(this.#entries, id % ENTRIES, (tag << 8) | (shard + 1));
  }

  /** The entry that the id shares with others: it changes when the job has moved. */
  entry(id: number): number {
    return Atomics.load(this.#entries, id % ENTRIES);
  }

  find(id: number): number {
    const entry = Atomics.load(this.#entries, id % ENTRIES);
    if (entry === 0 || entry >>> 8 !== Math.floor(id / ENTRIES) % TAG_RANGE) return UNKNOWN_SHARD;
    return (entry & 0xff) - 1;
  }
}
