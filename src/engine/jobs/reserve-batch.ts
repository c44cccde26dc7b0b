// The rules of a batch: how many of the next best jobs go together.

import { assert } from "../../base/assert.ts";
import { JobCounter } from "../../schema/job.ts";
import { type JobTable, NO_SLOT, rowOf } from "./job-table.ts";

/** A job as listed for a batch over several shards. */
export interface ListedJob {
  readonly id: number;
  readonly pri: number;
  readonly bodyBytes: number;
}

export interface BatchLimits {
  readonly jobsMax: number;
  /** Maximum bytes of all bodies; the first job goes whatever its size. */
  readonly bytesMax: number;
}

/**
 * Returns whether a reservation of the job ended by its TTR or with its holder's connection. Such a
 * job travels alone: if it kills its workers, it must not take other jobs down with it again and
 * again.
 */
export function wasLost(jobs: JobTable, slot: number): boolean {
  const page = jobs.pageOf(slot);
  const row = rowOf(slot);
  return (
    page.count(row, JobCounter.reserves) >
    page.count(row, JobCounter.releases) + page.count(row, JobCounter.buries)
  );
}

/** Judges jobs one after another, best first. */
export class ReserveBatch {
  readonly #jobs: JobTable;
  readonly #limits: BatchLimits;
  #count = 0;
  #bytes = 0;
  /** Whether no further job fits. */
  isOver = false;

  constructor(jobs: JobTable, limits: BatchLimits) {
    this.#jobs = jobs;
    this.#limits = limits;
  }

  /** Returns whether the job goes with those before it. If not, the batch ends before it. */
  takes(slot: number): boolean {
    assert(slot !== NO_SLOT, "a batch takes jobs");
    if (this.isOver || this.#count === this.#limits.jobsMax) return false;
    const isLost = wasLost(this.#jobs, slot);
    this.#bytes += this.#jobs.pageOf(slot).bodyBytes[rowOf(slot)]!;
    if (this.#count > 0 && (isLost || this.#bytes > this.#limits.bytesMax)) return false;
    this.#count++;
    assert(this.#count <= this.#limits.jobsMax, "a batch has no more jobs than its limit");
    this.isOver = isLost || this.#bytes > this.#limits.bytesMax;
    return true;
  }
}
