// Jobs in order of arrival, linked through the job table, so that each can be removed in constant
// time.

import { assert, CHECKED } from "../../base/assert.ts";
import { type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";

/** A list of slots. A job is in at most one such list at a time. */
export class JobList {
  readonly #jobs: JobTable;
  #first: number = NO_SLOT;
  #last: number = NO_SLOT;

  constructor(jobs: JobTable) {
    this.#jobs = jobs;
  }

  /** The slot that was appended first, or NO_SLOT. */
  get first(): number {
    return this.#first;
  }

  /** The slot that was appended last, or NO_SLOT. */
  get last(): number {
    return this.#last;
  }

  /**
   * The `deadlineAtMs` of the first slot, for lists in which it means the time of arrival; Infinity
   * without a slot.
   */
  get firstSinceMs(): number {
    const first = this.#first;
    return first === NO_SLOT
      ? Number.POSITIVE_INFINITY
      : this.#jobs.pageOf(first).deadlineAtMs[rowOf(first)]!;
  }

  /** Returns the slot after a member, or NO_SLOT. */
  behind(slot: number): number {
    return this.#jobs.pageOf(slot).next[rowOf(slot)]!;
  }

  append(slot: number): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    const last = this.#last;
    if (CHECKED) assert(last === NO_SLOT || this.behind(last) === NO_SLOT, "nothing follows the last job");
    page.previous[row] = last;
    page.next[row] = NO_SLOT;
    if (last === NO_SLOT) this.#first = slot;
    else this.#jobs.pageOf(last).next[rowOf(last)] = slot;
    this.#last = slot;
  }

  remove(slot: number): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    const previous = page.previous[row]!;
    const next = page.next[row]!;
    assert((previous === NO_SLOT) === (this.#first === slot), "a job leaves the list that it is in");
    if (CHECKED) assert((next === NO_SLOT) === (this.#last === slot), "only the last job has none after it");
    if (previous === NO_SLOT) this.#first = next;
    else this.#jobs.pageOf(previous).next[rowOf(previous)] = next;
    if (next === NO_SLOT) this.#last = previous;
    else this.#jobs.pageOf(next).previous[rowOf(next)] = previous;
  }
}
