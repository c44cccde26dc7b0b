// Walks over the jobs that match a filter: to find, clear or move them.

import { assert } from "../base/assert.ts";
import type { BodyArena } from "./jobs/body-arena.ts";
import { ENDS, type End } from "./jobs/ends.ts";
import type { IndexPlace, JobIndex } from "./jobs/job-index.ts";
import { JobState, type JobTable, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import { groupOf, NO_GROUP } from "./queues/job-groups.ts";
import type { Tube } from "./tubes/tube.ts";

// Searches job bodies for bytes, one part of a body at a time, reading each byte once
// (Knuth-Morris-Pratt).
//
// `Buffer.includes` is 20 times as fast on dissimilar data, but takes 13 ns a byte on similar data:
// 54 ms for 4 MB of "a" and "aab". Clients choose the bodies and the text, and must not delay other
// clients that way. This search takes 1 to 4 ns for any byte. For a short body, the call to
// `includes` alone took 2 us.

/** Bytes of a body to search at once. */
const PART_BYTES = 64 * 1024;
/** Maximum length of the text. */
const SEARCHED_BYTES_MAX = 255;

/** A result of `BodySearch.search` that is not a position. */
export const FOUND = -1;

/** One instance serves all walks of an engine; it keeps no state between calls. */
export class BodySearch {
  readonly #bodies: BodyArena;
  /**
   * A part, plus the bytes that an occurrence beginning in it may need. Allocated at the first
   * search.
   */
  #part: Uint8Array | undefined;
  /** The text of the last search, and the length of the longest border of each of its prefixes. */
  #text: Uint8Array | undefined;
  readonly #borders = new Uint8Array(SEARCHED_BYTES_MAX);

  constructor(bodies: BodyArena) {
    this.#bodies = bodies;
  }

  /**
   * Searches for `text` in a body, at positions from `from` on, over up to `bytesMax` bytes and at
   * least one. Returns FOUND, or the first position not searched; `bodyBytes` means that the text
   * does not occur.
   */
  search(body: number, bodyBytes: number, text: Uint8Array, from: number, bytesMax: number): number {
    assert(from >= 0 && from <= bodyBytes, "a search begins within the body");
    const end = Math.min(bodyBytes, from + Math.max(1, bytesMax));
    for (let at = from; at < end; at += PART_BYTES) {
      const length = Math.min(PART_BYTES, end - at);
      if (this.#isIn(body, bodyBytes, text, at, length)) return FOUND;
    }
    return end;
  }

  #isIn(body: number, bodyBytes: number, text: Uint8Array, at: number, length: number): boolean {
    const partBytes = Math.min(length + text.length - 1, bodyBytes - at);
    if (partBytes < text.length) return false;
    const part = (this.#part ??= new Uint8Array(PART_BYTES + SEARCHED_BYTES_MAX));
    assert(partBytes <= part.length, "the searched part fits into its buffer");
    this.#bodies.read(body, at, part, 0, partBytes);
    if (text !== this.#text) this.#learn(text);
    return isWithin(part, partBytes, text, this.#borders);
  }

  #learn(text: Uint8Array): void {
    assert(
      text.length > 0 && text.length <= SEARCHED_BYTES_MAX,
      "a search text is 1 to SEARCHED_BYTES_MAX bytes long",
    );
    const borders = this.#borders;
    this.#text = text;
    borders[0] = 0;
    for (let i = 1, border = 0; i < text.length; i++) {
      while (border > 0 && text[i] !== text[border]) border = borders[border - 1]!;
      if (text[i] === text[border]) border++;
      borders[i] = border;
    }
  }
}

function isWithin(part: Uint8Array, partBytes: number, text: Uint8Array, borders: Uint8Array): boolean {
  const last = text.length - 1;
  const first = text[0];
  for (let at = 0, matched = 0; at < partBytes; at++) {
    const byte = part[at];
    if (matched === 0) {
      // The usual case.
      if (byte !== first) continue;
    } else {
      while (matched > 0 && byte !== text[matched]) matched = borders[matched - 1]!;
      if (byte !== text[matched]) continue;
    }
    if (matched === last) return true;
    matched++;
  }
  return false;
}

// A walk upwards through the ids of a shard that finds the jobs matching a filter. It serves lists,
// and commands on many jobs of a tube.
//
// It needs no memory of its own in the engine, because the index is sorted by id. A walk may pause
// after any job, for any time, while jobs come, change and go. As in Redis' SCAN, it finds each job
// that matches throughout exactly once. Ids are in order of age.

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
 * search. A byte takes 1 to 4 ns, whatever body and text are (job-walk.ts).
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
    const number = groupOf(this.#walked.jobs, slot);
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

// Deletes, in steps, the jobs of a tube that existed at the beginning and match a filter.

/** The parts of an engine that a clearing needs. */
interface ClearedJobs {
  readonly jobs: JobTable;
  findTube(name: string): Tube | undefined;
  /** Deletes a job in any state. */
  discard(slot: number, end: End, nowMs: number): void;
}

/** States whose queues belong to the tube; reserved jobs belong to their holders. */
const QUEUED: readonly JobState[] = [JobState.Ready, JobState.Delayed, JobState.Buried];
const EVERY_STATE: readonly JobState[] = [...QUEUED, JobState.Reserved];

/**
 * Skips jobs with a higher id than any at the beginning, so it ends however many jobs are put
 * meanwhile. Without a filter, it takes jobs from the ends of the tube's queues as long as these
 * are old enough. There, a removal moves no other job, and the jobs of other tubes need not be
 * examined. The walk finds the rest, smallest id first.
 */
export class TubeClearing {
  readonly tube: string;
  readonly walk: JobWalk;
  /** Number of jobs that it may still delete. */
  jobsLeft: number;
  /** Number of jobs that it has deleted. */
  cleared = 0;
  readonly #engine: ClearedJobs;
  readonly #isWhole: boolean;

  /** `limit` is Infinity for all. */
  constructor(engine: ClearedJobs, tube: string, walk: JobWalk, limit: number) {
    this.#engine = engine;
    this.tube = tube;
    this.walk = walk;
    this.jobsLeft = limit;
    const { createdByMs, contains, group } = walk.filter;
    const isAny = createdByMs === Infinity && contains === undefined && group === undefined;
    this.#isWhole = isAny && limit === Infinity;
  }

  /** An estimate of the jobs to delete or examine, including searches of equal cost. */
  get work(): number {
    const tube = this.#engine.findTube(this.tube);
    if (tube === undefined) return 0;
    return this.#isWhole ? this.#jobsIn(tube) : this.walk.work(tube);
  }

  /** Deletes up to `jobsMax` jobs; returns whether that was all. */
  step(jobsMax: number, nowMs: number): boolean {
    const before = this.cleared;
    if (this.#isWhole) this.#takeFromEnds(jobsMax, nowMs);
    const taken = this.cleared - before;
    if (taken < jobsMax) this.#walkOn(jobsMax - taken, nowMs);
    assert(this.cleared - before <= jobsMax, "a step deletes no more jobs than it may");
    return this.#isDone;
  }

  get #isDone(): boolean {
    const tube = this.#engine.findTube(this.tube);
    return (
      tube === undefined ||
      this.jobsLeft === 0 ||
      this.walk.hasEnded ||
      (this.#isWhole && this.#jobsIn(tube) === 0)
    );
  }

  #discard(slot: number, nowMs: number): void {
    this.#engine.discard(slot, ENDS.Cleared, nowMs);
    this.cleared++;
    this.jobsLeft--;
    assert(this.jobsLeft >= 0, "a clearing deletes no more jobs than its limit");
  }

  #takeFromEnds(jobsMax: number, nowMs: number): void {
    assert(this.jobsLeft === Infinity, "a whole tube is cleared without a limit");
    let left = jobsMax;
    for (const state of QUEUED) {
      if ((this.walk.filter.states & stateBit(state)) === 0) continue;
      for (; left > 0; left--) {
        const slot = this.#endOf(state);
        if (slot === NO_SLOT) break;
        this.#discard(slot, nowMs);
      }
    }
  }

  /**
   * Returns the job at the end of a queue, or NO_SLOT if there is none that may be deleted. The
   * tube disappears with its last job.
   */
  #endOf(state: JobState): number {
    const tube = this.#engine.findTube(this.tube);
    if (tube === undefined) return NO_SLOT;
    const slot = endOf(tube, state);
    if (slot === NO_SLOT) return NO_SLOT;
    const { jobs } = this.#engine;
    assert(jobs.pageOf(slot).state[rowOf(slot)] === state, "the job at the end of a queue is in its state");
    return jobs.pageOf(slot).id[rowOf(slot)]! <= this.walk.lastId ? slot : NO_SLOT;
  }

  #walkOn(jobsMax: number, nowMs: number): void {
    const budget = turnBudget(jobsMax);
    for (let left = jobsMax; left > 0 && this.jobsLeft > 0; left--) {
      const tube = this.#engine.findTube(this.tube);
      if (tube === undefined || (this.#isWhole && this.#jobsIn(tube) === 0)) return;
      const slot = this.walk.next(tube, budget);
      if (slot === NO_SLOT) return;
      this.#discard(slot, nowMs);
    }
  }

  #jobsIn(tube: Tube): number {
    let jobs = 0;
    for (const state of EVERY_STATE)
      if ((this.walk.filter.states & stateBit(state)) !== 0) jobs += tube.jobsIn(state);
    return jobs;
  }
}

function endOf(tube: Tube, state: JobState): number {
  if (state === JobState.Buried) return tube.buriedJobs === 0 ? NO_SLOT : tube.buried.first;
  if (tube.jobsIn(state) === 0) return NO_SLOT;
  return state === JobState.Ready ? tube.ready.tail : tube.delayed.at(tube.delayed.size - 1);
}

// Moves, in steps, the jobs of a tube that existed at the beginning and match a filter to another
// tube, on this shard or another. Dead jobs can also each return to the tube in which they died.

/** The parts of an engine that a move needs. */
interface MovedJobs {
  readonly jobs: JobTable;
  readonly changes: {
    /**
     * Moves a job. Returns whether it has moved, stays where it is, found its target full, or would
     * have to go to another shard.
     */
    move(slot: number, target: string, asReady: boolean, nowMs: number): MoveOutcome;
    /** Returns the tube in which a dead job died, or "". */
    originOf(slot: number): string;
  };
  findTube(name: string): Tube | undefined;
}

/** Takes jobs that have to go to other shards. */
export interface FarMoves {
  /** Whether nothing more may be sent before some jobs have arrived. */
  readonly isFull: boolean;
  /** Number of jobs that were sent and whose fate is unknown. */
  readonly underWay: number;
  /** Number of jobs that have arrived. */
  readonly moved: number;
  /** Whether a target was full or out of memory; nothing more is moved then. */
  readonly refused: boolean;
  send(slot: number, target: string, asReady: boolean, nowMs: number): void;
}

export const MoveOutcome = { Moved: 0, Stays: 1, Full: 2, Elsewhere: 3 } as const;
export type MoveOutcome = (typeof MoveOutcome)[keyof typeof MoveOutcome];

/**
 * Skips jobs with a higher id than any at the beginning, so that it ends. Takes the smallest ids
 * first.
 */
export class TubeMoving {
  readonly tube: string;
  readonly #far: FarMoves;
  #movedHere = 0;
  readonly #engine: MovedJobs;
  readonly #walk: JobWalk;
  readonly #target: string;
  readonly #asReady: boolean;
  #jobsLeft: number;
  #full = false;

  /** `target` is "" for the tube in which each job died; `limit` is Infinity for all. */
  constructor(
    engine: MovedJobs,
    tube: string,
    walk: JobWalk,
    far: FarMoves,
    { target, asReady, limit }: { target: string; asReady: boolean; limit: number },
  ) {
    this.#engine = engine;
    this.tube = tube;
    this.#walk = walk;
    this.#far = far;
    this.#target = target;
    this.#asReady = asReady;
    this.#jobsLeft = limit;
  }

  /** Number of jobs that it has moved. */
  get moved(): number {
    return this.#movedHere + this.#far.moved;
  }

  /** An estimate of the jobs to move or examine. */
  get work(): number {
    if (this.#engine.findTube(this.tube) === undefined) return 0;
    return Math.min(this.#jobsLeft, this.#engine.jobs.live);
  }

  /** Moves up to `jobsMax` jobs; returns whether that was all. */
  step(jobsMax: number, nowMs: number): boolean {
    if (!this.#isDone) this.#moveSome(jobsMax, nowMs);
    assert(this.#far.underWay >= 0, "the jobs that were sent are counted");
    return this.#isDone && this.#far.underWay === 0;
  }

  /** Whether it can't continue before jobs have arrived at other shards. */
  get isWaiting(): boolean {
    return this.#far.underWay > 0 && (this.#far.isFull || this.#isDone);
  }

  get #isDone(): boolean {
    return (
      this.#full ||
      this.#far.refused ||
      this.#jobsLeft === 0 ||
      this.#walk.hasEnded ||
      this.#engine.findTube(this.tube) === undefined
    );
  }

  #moveSome(jobsMax: number, nowMs: number): void {
    const budget = turnBudget(jobsMax);
    for (let left = jobsMax; left > 0 && !this.#far.isFull && !this.#full && this.#jobsLeft > 0; left--) {
      const tube = this.#engine.findTube(this.tube);
      if (tube === undefined) return;
      const slot = this.#walk.next(tube, budget);
      if (slot === NO_SLOT) return;
      this.#move(slot, nowMs);
    }
  }

  #move(slot: number, nowMs: number): void {
    const target = this.#target === "" ? this.#engine.changes.originOf(slot) : this.#target;
    if (target === "") return;
    const outcome = this.#engine.changes.move(slot, target, this.#asReady, nowMs);
    assert(outcome !== MoveOutcome.Elsewhere || !this.#far.isFull, "a job leaves while the round has room");
    if (outcome === MoveOutcome.Full) this.#full = true;
    if (outcome === MoveOutcome.Elsewhere) this.#far.send(slot, target, this.#asReady, nowMs);
    else if (outcome !== MoveOutcome.Moved) return;
    else this.#movedHere++;
    this.#jobsLeft--;
    assert(this.#jobsLeft >= 0, "a move takes no more jobs than its limit");
  }
}
