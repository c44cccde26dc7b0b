// A shard's part of a list of jobs over all shards, as bytes for the acceptor that merges the
// parts.
//
//   float64  next   all ids up to this one are done; 0: all jobs are
//   for each job, smallest id first: float64 id, uint32 length, its line as ASCII

const HEAD_BYTES = 8;
const ENTRY_HEAD_BYTES = 12;

export interface ListedJob {
  readonly id: number;
  /** ASCII. */
  readonly line: string;
}

export function packListedJobs(next: number, jobs: readonly ListedJob[]): Uint8Array {
  const lineBytes = jobs.reduce((sum, { line }) => sum + line.length, 0);
  const bytes = new Uint8Array(HEAD_BYTES + jobs.length * ENTRY_HEAD_BYTES + lineBytes);
  const view = new DataView(bytes.buffer);
  view.setFloat64(0, next, true);
  let at = HEAD_BYTES;
  for (const { id, line } of jobs) {
    view.setFloat64(at, id, true);
    view.setUint32(at + 8, line.length, true);
    at += ENTRY_HEAD_BYTES;
    for (let i = 0; i < line.length; i++) bytes[at++] = line.charCodeAt(i);
  }
  return bytes;
}

/** Reads such a part, job by job. */
export class ListedJobsReader {
  /** All ids up to this one are done; 0 means that all jobs are. */
  readonly next: number;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = HEAD_BYTES;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.next = this.#view.getFloat64(0, true);
  }

  /** The id of the current job; Infinity after the last. */
  get id(): number {
    return this.#at === this.#bytes.length ? Number.POSITIVE_INFINITY : this.#view.getFloat64(this.#at, true);
  }

  /** Its row, valid as long as the bytes. */
  get line(): Uint8Array {
    const start = this.#at + ENTRY_HEAD_BYTES;
    return this.#bytes.subarray(start, start + this.#view.getUint32(this.#at + 8, true));
  }

  /** Advances to the next job. */
  shift(): void {
    this.#at += ENTRY_HEAD_BYTES + this.line.length;
  }
}
