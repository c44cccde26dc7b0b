// Maps recent jobs to the shard that holds them, in shared memory of a fixed size.
//
// An entry is one int32: 24 bits of the id above the table's size, and 8 bits for the shard plus 1.
// The thread that takes an id writes its entry before it sends the put. A shard that receives a
// moved job writes the entry before any client can see the job there. So a match was true when it
// was written. A shard that lacks the job checks whether the entry still names it; if so, the job
// doesn't exist. No match means "ask all shards", as for jobs older than the last million.

import { assert } from "../base/assert.ts";

const JOB_ENTRIES_BITS = 20;
const JOB_ENTRIES = 2 ** JOB_ENTRIES_BITS;
const TAG_RANGE = 2 ** 24;

/** Result of `find` for an id that is not in the table. */
export const UNKNOWN_SHARD = -1;

export class JobDirectory {
  /** Size of a directory in bytes of shared memory. */
  static readonly BYTES: number = JOB_ENTRIES * 4;
  readonly #entries: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    assert(buffer.byteLength === JobDirectory.BYTES, "a job directory fills its memory");
    this.#entries = new Int32Array(buffer);
  }

  set(id: number, shard: number): void {
    assert(shard >= 0 && shard < 0xff, "a shard fits into 8 bits with 1 added");
    const tag = Math.floor(id / JOB_ENTRIES) % TAG_RANGE;
    Atomics.store(this.#entries, id % JOB_ENTRIES, (tag << 8) | (shard + 1));
  }

  /** Returns the entry for the id, which other ids share; it changes when the job moves. */
  entry(id: number): number {
    return Atomics.load(this.#entries, id % JOB_ENTRIES);
  }

  find(id: number): number {
    const entry = Atomics.load(this.#entries, id % JOB_ENTRIES);
    if (entry === 0 || entry >>> 8 !== Math.floor(id / JOB_ENTRIES) % TAG_RANGE) return UNKNOWN_SHARD;
    return (entry & 0xff) - 1;
  }
}

// Maps recent jobs to the log file that holds their full record, in shared memory of a fixed size.
//
// An entry is one int32: 8 bits of the id above the table's size, and 24 bits of the file number.
// Only the log's thread writes entries; shards read them for stats-job.

const FILE_ENTRIES = 2 ** 20;
const FILE_BITS = 24;
const FILE_TAG_RANGE = 2 ** (32 - FILE_BITS);

export class FileTable {
  /** Size of a table in bytes of shared memory. */
  static readonly BYTES: number = FILE_ENTRIES * 4;
  readonly #entries: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    assert(buffer.byteLength === FileTable.BYTES, "a file table fills its memory");
    this.#entries = new Int32Array(buffer);
  }

  set(id: number, file: number): void {
    assert(file > 0, "the full record of a job lies in a file");
    const tag = Math.floor(id / FILE_ENTRIES) % FILE_TAG_RANGE;
    Atomics.store(this.#entries, id % FILE_ENTRIES, (tag << FILE_BITS) | (file % 2 ** FILE_BITS));
  }

  /** Returns the file, or 0 for a job that is not in the table. */
  find(id: number): number {
    const entry = Atomics.load(this.#entries, id % FILE_ENTRIES);
    const tag = Math.floor(id / FILE_ENTRIES) % FILE_TAG_RANGE;
    return entry >>> FILE_BITS === tag ? entry & (2 ** FILE_BITS - 1) : 0;
  }
}
