// A walk upwards through the ids of a shard that finds the jobs matching a filter. It serves lists,
// and commands on many jobs of a tube.
//
// It needs no memory of its own in the engine, because the index is sorted by id. A walk may pause
// after any job, for any time, while jobs come, change and go. As in Redis' SCAN, it finds each job
// that matches throughout exactly once. Ids are in order of age.

import { assert } from "../../base/assert.ts";
import type { BodyArena } from "../jobs/body-arena.ts";
import { type BodySearch, FOUND } from "../jobs/body-search.ts";
import type { IndexPlace, JobIndex } from "../jobs/job-index.ts";
import { JobState, type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import { NO_GROUP } from "../queues/job-groups.ts";
import type { Tube } from "../tubes/tube.ts";

/** A filter for jobs of a tube. */
export interface JobFilter {
  /** Bits of the states, as `stateBit` returns them. */
  readonly states: number;
  /** Latest creation time, monotonic ms; Infinity for any. */
  readonly createdByMs: number;
  /** Bytes that the body must contain, 1 to SEARCHED_BYTES_MAX; undefined for any body. */
  readonly contains: Uint8Array | undefined;
  /** The group, Latin-1; undefined for any group or none. */
  readonly group?: string | undefined;
}

export function stateBit(state: JobState): number {
  return 1 << state;
}

export const ALL_STATES: number =
  stateBit(JobState.Ready) |
  stateBit(JobState.Reserved) |
  stateBit(JobState.Buried) |
  stateBit(JobState.Delayed);

/** The work that a walk may do before it pauses. */
export interface WalkBudget {
  /** Number of ids to examine. */
  looksLeft: number;
  /** Bytes of bodies to search. */
  searchBytesLeft: number;
}

/**
 * Number of ids that a turn may examine per job that it may change, and bytes of bodies that it may
 * search. A byte takes 1 to 4 ns, whatever body and text are (body-search.ts).
 */
const LOOKS_PER_JOB = 5;
const SEARCH_BYTES_PER_JOB = 1024;

/** Returns the budget of a turn that may change `jobs` jobs: for 1,000 jobs, 5,000 ids and 1 MB. */
export function turnBudget(jobs: number): WalkBudget {
  return { looksLeft: jobs * LOOKS_PER_JOB, searchBytesLeft: jobs * SEARCH_BYTES_PER_JOB };
}

/** The parts of an engine that a walk reads. */
interface WalkedJobs {
  readonly jobs: JobTable;
  readonly index: JobIndex;
  readonly bodies: BodyArena;
  readonly search: BodySearch;
  /** Returns the tube of a job. */
  readonly tubeOf: (slot: number) => Tube;
}

export class JobWalk {
  readonly filter: JobFilter;
  /** The highest id of the walk. */
  readonly lastId: number;
  readonly #walked: WalkedJobs;
  readonly #place: IndexPlace;
  /**
   * How far the current job's body was searched when the budget ran out; -1 if no search is
   * unfinished.
   */
  #searchedBytes = -1;

  constructor(walked: WalkedJobs, filter: JobFilter, afterId: number, lastId: number) {
    this.#walked = walked;
    this.filter = filter;
    this.lastId = lastId;
    this.#place = { id: afterId, looksLeft: 0 };
  }

  /**
   * Returns an estimate of the jobs to examine, including searches of equal cost. A limit may end
   * the walk earlier, which can't be known. `tube` is undefined for all tubes.
   */
  work(tube: Tube | undefined): number {
    if (this.filter.contains === undefined) return this.#walked.jobs.live;
    return tube === undefined
      ? Infinity
      : this.#walked.jobs.live + Math.ceil(tube.bytes / SEARCH_BYTES_PER_JOB);
  }

  /** The walk has finished all ids up to this one. */
  get doneId(): number {
    return this.#searchedBytes < 0 ? this.#place.id : this.#place.id - 1;
  }

  /** Whether there is nothing left to examine. */
  get hasEnded(): boolean {
    return this.doneId >= this.lastId;
  }

  /**
   * Returns the slot of the next matching job, in `tube` or, if that is undefined, in any. Returns
   * NO_SLOT at the end, and when the budget is used up.
   */
  next(tube: Tube | undefined, budget: WalkBudget): number {
    const place = this.#place;
    if (this.#searchedBytes >= 0) {
      const from = this.#searchedBytes;
      assert(place.id <= this.lastId, "a search continues within the walk");
      this.#searchedBytes = -1;
      const slot = this.#walked.index.get(place.id);
      if (slot !== NO_SLOT && this.#matches(slot, tube) && this.#hasText(slot, from, budget)) return slot;
    }
    while (this.#searchedBytes < 0 && budget.looksLeft > 0) {
      place.looksLeft = budget.looksLeft;
      const slot = this.#walked.index.next(place, this.lastId);
      budget.looksLeft = place.looksLeft;
      assert(place.looksLeft >= 0, "a walk keeps to its budget");
      if (slot === NO_SLOT) return NO_SLOT;
      assert(place.id <= this.lastId, "a walk ends with the last id of its beginning");
      if (this.#matches(slot, tube) && this.#hasText(slot, 0, budget)) return slot;
    }
    return NO_SLOT;
  }

  /** Returns whether a job matches, apart from its body. */
  #matches(slot: number, tube: Tube | undefined): boolean {
    const page = this.#walked.jobs.pageOf(slot);
    const row = rowOf(slot);
    const { states, createdByMs, group } = this.filter;
    return (
      (tube === undefined || page.tube[row] === tube.index) &&
      (states & (1 << page.state[row]!)) !== 0 &&
      page.createdAtMs[row]! <= createdByMs &&
      (group === undefined || this.#groupOf(slot) === group)
    );
  }

  #groupOf(slot: number): string | undefined {
    const number = this.#walked.jobs.pageOf(slot).extras?.groupRow[rowOf(slot)] ?? NO_GROUP;
    return number === NO_GROUP ? undefined : this.#walked.tubeOf(slot).groups?.describe(number)?.key;
  }

  /**
   * Returns whether the body, from a position on, contains the text. If the budget ends first,
   * records how far the search got.
   */
  #hasText(slot: number, searched: number, budget: WalkBudget): boolean {
    const text = this.filter.contains;
    if (text === undefined) return true;
    const { jobs, search } = this.#walked;
    const page = jobs.pageOf(slot);
    const bodyBytes = page.bodyBytes[rowOf(slot)]!;
    if (bodyBytes < text.length) return false;
    // A search pauses before the end of a body, but a put may since have replaced it with a shorter
    // one.
    const from = searched < bodyBytes ? searched : 0;
    if (budget.searchBytesLeft <= 0) {
      this.#searchedBytes = from;
      return false;
    }
    const at = search.search(page.body[rowOf(slot)]!, bodyBytes, text, from, budget.searchBytesLeft);
    if (at === FOUND) return true;
    assert(at > from && at <= bodyBytes, "a search goes forward");
    budget.searchBytesLeft -= at - from;
    if (at < bodyBytes) this.#searchedBytes = at;
    return false;
  }
}
