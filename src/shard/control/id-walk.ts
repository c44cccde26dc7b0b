// Walks over jobs with known ids, in order, and finds those that match a filter. JobWalk does the
// same for all ids.

import { assert, CHECKED } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { BodySearch, FOUND } from "../../engine/jobs/body-search.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import type { JobFilter, JobWalk, WalkBudget } from "../../engine/walks/job-walk.ts";

/** The parts of a walk that a list of jobs uses. */
export type Walk = Pick<JobWalk, "next" | "doneId" | "hasEnded">;

export class IdWalk implements Walk {
  readonly #engine: Engine;
  readonly #ids: ArrayLike<number>;
  readonly #filter: JobFilter;
  readonly #search: BodySearch;
  readonly #afterId: number;
  #at = 0;
  /** How far the body of the job at `#at` has been searched. */
  #searchedBytes = 0;

  /** `afterId` is the cursor before the first job. */
  constructor(engine: Engine, ids: ArrayLike<number>, filter: JobFilter, afterId: number) {
    this.#afterId = afterId;
    this.#engine = engine;
    this.#ids = ids;
    this.#filter = filter;
    this.#search = new BodySearch(engine.bodies);
  }

  /** The last id that is done. */
  get doneId(): number {
    assert(this.#at <= this.#ids.length, "a walk ends with its last id");
    return this.#at === 0 ? this.#afterId : this.#ids[this.#at - 1]!;
  }

  get hasEnded(): boolean {
    return this.#at >= this.#ids.length;
  }

  /**
   * Returns the slot of the next matching job, or NO_SLOT at the end or when the budget is used up.
   */
  next(tube: Tube | undefined, budget: WalkBudget): number {
    while (!this.hasEnded && budget.looksLeft > 0 && budget.searchBytesLeft > 0) {
      budget.looksLeft--;
      const slot = this.#engine.find(this.#ids[this.#at]!);
      // Between two turns, a job may have been deleted, or have changed its state or tube.
      const isMatch = slot !== NO_SLOT && this.#matches(slot, tube);
      if (!isMatch) this.#searchedBytes = 0;
      const isFound = isMatch && this.#hasText(slot, budget);
      if (this.#searchedBytes > 0) return NO_SLOT;
      this.#at++;
      if (isFound) return slot;
    }
    return NO_SLOT;
  }

  #matches(slot: number, tube: Tube | undefined): boolean {
    const page = this.#engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    const { states, createdByMs } = this.#filter;
    if (CHECKED) assert(page.state[row] !== JobState.Free, "a job that is found exists");
    return (
      (tube === undefined || page.tube[row] === tube.index) &&
      (states & (1 << page.state[row]!)) !== 0 &&
      page.createdAtMs[row]! <= createdByMs
    );
  }

  /**
   * Returns whether the body contains the text. If the budget ends first, the next call continues
   * from there.
   */
  #hasText(slot: number, budget: WalkBudget): boolean {
    const text = this.#filter.contains;
    if (text === undefined) return true;
    const page = this.#engine.jobs.pageOf(slot);
    const bodyBytes = page.bodyBytes[rowOf(slot)]!;
    // A put may have replaced the body by a shorter one since the last turn.
    const from = this.#searchedBytes < bodyBytes ? this.#searchedBytes : 0;
    this.#searchedBytes = 0;
    const to = this.#search.search(page.body[rowOf(slot)]!, bodyBytes, text, from, budget.searchBytesLeft);
    if (to === FOUND) return true;
    assert(to >= from && to <= bodyBytes, "a search goes forward");
    budget.searchBytesLeft -= to - from;
    if (to < bodyBytes) this.#searchedBytes = to;
    return false;
  }
}
