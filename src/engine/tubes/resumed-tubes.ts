// Tubes whose pauses end at the same moment, the one with the best ready job first.

import { assert } from "../../base/assert.ts";
import { betterJob, type JobTable, NO_SLOT } from "../jobs/job-table.ts";
import { BestHeap } from "../queues/best-heap.ts";
import type { Tube } from "./tube.ts";

/** Each member has a ready job, and only the first may lose it. */
export class ResumedTubes extends BestHeap<Tube> {
  constructor(jobs: JobTable) {
    super((a, b) => betterJob(jobs, a.ready.top, b.ready.top));
  }

  /** Updates the heap after the first tube has given its best job. It may have no other. */
  firstServed(): void {
    const tube = this.first;
    assert(tube !== undefined, "the tube that was served is in the heap");
    if (!tube.open || tube.ready.top === NO_SLOT) this.pop();
    else this.firstChanged();
  }
}
