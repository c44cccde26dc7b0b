// Goes upwards through the ids of a shard and finds the jobs that a filter lets through: for lists, and for all that is done
// to many jobs of a tube.
//
// It needs no memory of its own in the engine: ids are in order in the index. It may rest after any job, for as long as it
// takes, while jobs come, change and go: what fits all the time is found exactly once, as with Redis' SCAN. Ids are in the
// order of age.

import type { BodyArena } from "../jobs/body-arena.ts";
import { type BodySearch, FOUND } from "../jobs/body-search.ts";
import type { IndexPlace, JobIndex } from "../jobs/job-index.ts";
import { JobState, type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import { NO_GROUP } from "../queues/job-groups.ts";
import type { Tube } from "../tubes/tube.ts";

/** Which jobs of a tube are meant. */
export interface JobFilter {
  /** The bits `stateBit` of their states. */
  readonly states: number;
  /** They were created at this moment or before, monotonic ms; Infinity for any. */
  readonly createdByMs: number;
  /** Bytes that are somewhere in their bodies, 1 to SEARCHED_BYTES_MAX; undefined for any body. */
  readonly contains: Uint8Array | undefined;
  /** The group that they are in, Latin-1; undefined for any, and for those that are in none. */
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

/** What a walk may cost before it rests. */
export interface WalkBudget {
  /** Ids. */
  looksLeft: number;
  /** Bytes of bodies. */
  searchBytesLeft: number;
}

/**
 * How many ids a turn may look at for each job that it may change, and how many bytes of bodies it may search: a byte takes
 * 1 to 4 ns, whatever body and text are (body-search.ts).
 */
const LOOKS_PER_JOB = 5;
const SEARCH_BYTES_PER_JOB = 1024;

/** What a turn may cost that may change `jobs` jobs: of 1,000, ids 5,000 and bytes 1 MB. */
export function turnBudget(jobs: number): WalkBudget {
  return { looksLeft: jobs * LOOKS_PER_JOB, searchBytesLeft: jobs * SEARCH_BYTES_PER_JOB };
}

/** What of an engine a walk reads. */
export interface WalkedJobs {
  readonly jobs: JobTable;
  readonly index: JobIndex;
  readonly bodies: BodyArena;
  readonly search: BodySearch;
  /** The tube of a job. */
  readonly tubeOf: (slot: number) => Tube;
}

export class JobWalk {
  readonly filter: JobFilter;
  /** The highest id that it looks at. */
  readonly lastId: number;
  readonly #walked: WalkedJobs;
  readonly #place: IndexPlace;
  /** How far the body of the job at the place was searched when the budget was used up; -1 if it was not. */
  #searchedBytes = -1;

  constructor(walked: WalkedJobs, filter: JobFilter, afterId: number, lastId: number) {
    this.#walked = walked;
    this.filter = filter;
    this.lastId = lastId;
    this.#place = { id: afterId, looksLeft: 0 };
  }

  /**
   * About how many jobs it has to look at, or what costs as much. With a small limit it may come to its end before, but nobody
   * knows. `tube` is undefined for all.
   */
  work(tube: Tube | undefined): number {
    if (this.filter.contains === undefined) return this.#walked.jobs.live;
    return tube === undefined
      ? Infinity
      : this.#walked.jobs.live + Math.ceil(tube.bytes / SEARCH_BYTES_PER_JOB);
  }

  /** All ids up to this one are done. */
  get doneId(): number {
    return this.#searchedBytes < 0 ? this.#place.id : this.#place.id - 1;
  }

  /** Whether there is nothing left to look at. */
  get hasEnded(): boolean {
    return this.doneId >= this.lastId;
  }

  /**
   * The slot of the next job that fits, of `tube` or, if that is undefined, of any. NO_SLOT at the end, and where the budget
   * is used up.
   */
  next(tube: Tube | undefined, budget: WalkBudget): number {
    const place = this.#place;
    if (this.#searchedBytes >= 0) {
      const from = this.#searchedBytes;
      this.#searchedBytes = -1;
      const slot = this.#walked.index.get(place.id);
      if (slot !== NO_SLOT && this.#isMeant(slot, tube) && this.#hasText(slot, from, budget)) return slot;
    }
    while (this.#searchedBytes < 0 && budget.looksLeft > 0) {
      place.looksLeft = budget.looksLeft;
      const slot = this.#walked.index.next(place, this.lastId);
      budget.looksLeft = place.looksLeft;
      if (slot === NO_SLOT) return NO_SLOT;
      if (this.#isMeant(slot, tube) && this.#hasText(slot, 0, budget)) return slot;
    }
    return NO_SLOT;
  }

  /** Whether a job fits but for its body. */
  #isMeant(slot: number, tube: Tube | undefined): boolean {
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

  /** Whether its body, from a position on, has the text; if the budget ends before, notes how far it was searched. */
  #hasText(slot: number, from: number, budget: WalkBudget): boolean {
    const text = this.filter.contains;
    if (text === undefined) return true;
    const { jobs, search } = this.#walked;
    const page = jobs.pageOf(slot);
    const bodyBytes = page.bodyBytes[rowOf(slot)]!;
    if (bodyBytes < text.length) return false;
    if (budget.searchBytesLeft <= 0) {
      this.#searchedBytes = from;
      return false;
    }
    const at = search.search(page.body[rowOf(slot)]!, bodyBytes, text, from, budget.searchBytesLeft);
    if (at === FOUND) return true;
    budget.searchBytesLeft -= at - from;
    if (at < bodyBytes) this.#searchedBytes = at;
    return false;
  }
}
