// What a batch of jobs is: how many of the next best ones go together.

import { type JobTable, rowOf } from "./job-table.ts";

/** A job as it was listed for a batch over several shards. */
export interface ListedJob {
  readonly id: number;
  readonly pri: number;
}

export interface BatchLimits {
  readonly jobsMax: number;
  /** Bytes of bodies; the first job goes whatever its size. */
  readonly bytesMax: number;
}

/**
 * Whether a reservation of the job has ended by its ttr or with its holder. Such a job travels alone: if it kills its
 * workers, it must not take the other jobs of a batch with it again and again.
 */
export function wasLost(jobs: JobTable, slot: number): boolean {
  const page = jobs.pageOf(slot);
  const row = rowOf(slot);
  return page.reserves[row]! > page.releases[row]! + page.buries[row]!;
}

/** Judges one job after the other, best first. */
export class Batch {
  readonly #jobs: JobTable;
  readonly #limits: BatchLimits;
  #count = 0;
  #bytes = 0;
  /** No more goes with what it has. */
  isOver = false;

  constructor(jobs: JobTable, limits: BatchLimits) {
    this.#jobs = jobs;
    this.#limits = limits;
  }

  /** Whether the job goes with those before it. If not, the batch ends before it. */
  takes(slot: number): boolean {
    if (this.isOver || this.#count === this.#limits.jobsMax) return false;
    const isLost = wasLost(this.#jobs, slot);
    this.#bytes += this.#jobs.pageOf(slot).bodyBytes[rowOf(slot)]!;
    if (this.#count > 0 && (isLost || this.#bytes > this.#limits.bytesMax)) return false;
    this.#count++;
    this.isOver = isLost || this.#bytes > this.#limits.bytesMax;
    return true;
  }
}
