// One shard's part of a batch: the jobs as bytes for the client, and the size of each.

import { assert } from "../../../base/assert.ts";
import { copyBytes } from "../../../base/bytes.ts";
import type { Span } from "../../../protocol/request.ts";

/** Bytes of one size field. The sizes precede all jobs: see message/response.ts. */
const SIZE_BYTES = 4;

export class GatheredJobs {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #jobs: number;
  #received = 0;
  /** The next job, and where its bytes begin. */
  #next = 0;
  #nextAt: number;

  /** `jobs` is the number requested, `bytesMax` the most bytes they have together. */
  constructor(jobs: number, bytesMax: number) {
    this.#jobs = jobs;
    this.#nextAt = jobs * SIZE_BYTES;
    this.#bytes = new Uint8Array(this.#nextAt + bytesMax);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** The memory in use. */
  get bytes(): number {
    return this.#bytes.length;
  }

  /** Appends received bytes, which are valid only during the call. */
  add({ bytes, start, end }: Span): void {
    assert(
      this.#received + end - start <= this.#bytes.length,
      "a shard sends at most the jobs that were requested",
    );
    copyBytes(this.#bytes, this.#received, bytes, start, end - start);
    this.#received += end - start;
  }

  /** The number of jobs that the shard still had. Final once everything has arrived. */
  get taken(): number {
    let taken = 0;
    for (let job = 0; job < this.#jobs; job++) if (this.#sizeOf(job) > 0) taken++;
    return taken;
  }

  /** Returns the bytes of the next requested job, or none if the shard no longer had it. */
  shift(): Uint8Array {
    const size = this.#sizeOf(this.#next++);
    const start = this.#nextAt;
    this.#nextAt += size;
    return this.#bytes.subarray(start, this.#nextAt);
  }

  #sizeOf(job: number): number {
    return this.#view.getUint32(job * SIZE_BYTES, true);
  }
}
