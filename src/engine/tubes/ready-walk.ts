// Visits the ready jobs of some tubes, best first, without taking any of them out of its queue.

import { assert } from "../../base/assert.ts";
import { betterJob, type JobTable, NO_SLOT } from "../jobs/job-table.ts";
import { BestHeap } from "../queues/best-heap.ts";
import type { Tube } from "./tube.ts";

/**
 * A candidate for the next job: all other jobs of its tube come after it or after another
 * candidate.
 */
interface Cursor {
  readonly source: Source;
  /** Position in the heap of the tube's ready jobs. */
  readonly position: number;
  readonly slot: number;
}

/** A tube, and how many of its jobs may still follow. */
interface Source {
  readonly tube: Tube;
  left: number;
}

/**
 * A walk takes log(n + tubes) for its nth job. It is valid only while no job becomes ready or is
 * taken, that is, within one call.
 */
export class ReadyWalk {
  readonly #heap: BestHeap<Cursor>;
  /**
   * Whether the next job depends on what becomes of the last one: that job's tube has groups, which
   * take turns.
   */
  isUnsure = false;

  constructor(jobs: JobTable) {
    this.#heap = new BestHeap((a, b) => betterJob(jobs, a.slot, b.slot));
  }

  /** Adds up to `jobsMax` jobs of a tube that has some. */
  add(tube: Tube, jobsMax: number): void {
    assert(tube.ready.top !== NO_SLOT, "a tube that is walked has a job to give");
    if (jobsMax > 0) this.#heap.push({ source: { tube, left: jobsMax }, position: 0, slot: tube.ready.top });
  }

  /** The next job without advancing, or NO_SLOT. */
  get top(): number {
    while (this.#heap.first?.source.left === 0) this.#heap.pop();
    return this.#heap.first?.slot ?? NO_SLOT;
  }

  /** Returns the next best job, or NO_SLOT. */
  next(): number {
    for (;;) {
      const best = this.#heap.pop();
      if (best === undefined) return NO_SLOT;
      const { source, position, slot } = best;
      if (source.left === 0) continue;
      source.left--;
      assert(slot !== NO_SLOT, "a walk gives jobs");
      const { ready, groups } = source.tube;
      if (groups !== undefined) this.isUnsure = true;
      else
        for (let child = position * 2 + 1; child <= position * 2 + 2 && child < ready.size; child++)
          this.#heap.push({ source, position: child, slot: ready.at(child) });
      return slot;
    }
  }
}
