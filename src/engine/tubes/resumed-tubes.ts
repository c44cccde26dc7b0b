// Tubes whose pauses end at the same moment, the one with the best ready job first.

import { assert } from "../../base/assert.ts";
import { betterJob, type JobTable, NO_SLOT } from "../jobs/job-table.ts";
import type { Tube } from "./tube.ts";

/**
 * A binary heap of tubes by their best ready jobs. Each member has one, and only `best` may lose
 * it.
 */
export class ResumedTubes {
  readonly #jobs: JobTable;
  readonly #tubes: Tube[] = [];

  constructor(jobs: JobTable) {
    this.#jobs = jobs;
  }

  /** The tube with the best job of all. */
  get best(): Tube | undefined {
    return this.#tubes[0];
  }

  push(tube: Tube): void {
    assert(tube.ready.top !== NO_SLOT, "a tube that serves has a job");
    let position = this.#tubes.length;
    this.#tubes.push(tube);
    while (position > 0) {
      const parent = (position - 1) >> 1;
      if (!this.#goesBefore(tube, this.#tubes[parent]!)) break;
      this.#tubes[position] = this.#tubes[parent]!;
      position = parent;
    }
    this.#tubes[position] = tube;
  }

  /** Updates the heap after the best tube has given its best job, and may have no other. */
  bestServed(): void {
    const tube = this.best;
    assert(tube !== undefined, "the tube that was served is there");
    if (!tube.open || tube.ready.top === NO_SLOT) this.removeBest();
    else this.#siftDown(tube);
  }

  removeBest(): void {
    const last = this.#tubes.pop();
    assert(last !== undefined, "only a member is removed");
    if (this.#tubes.length > 0) this.#siftDown(last);
  }

  /** Sifts a tube down from the top. */
  #siftDown(tube: Tube): void {
    const tubes = this.#tubes;
    let position = 0;
    for (let child = 1; child < tubes.length; child = position * 2 + 1) {
      if (child + 1 < tubes.length && this.#goesBefore(tubes[child + 1]!, tubes[child]!)) child++;
      if (!this.#goesBefore(tubes[child]!, tube)) break;
      tubes[position] = tubes[child]!;
      position = child;
    }
    tubes[position] = tube;
  }

  #goesBefore(a: Tube, b: Tube): boolean {
    return betterJob(this.#jobs, a.ready.top, b.ready.top);
  }
}
