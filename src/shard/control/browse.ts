// Lists jobs of a shard page by page, in order of their ids or in the order in which they would be
// reserved.

import { assert, CHECKED } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import {
  BodySearch,
  FOUND,
  type JobFilter,
  type JobWalk,
  stateBit,
  turnBudget,
  type WalkBudget,
} from "../../engine/job-walk.ts";
import { betterJob, ExtraFlag, JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import type { BrowsePart, BrowseQuestion, Holder, JobFacts, StateName } from "../../message/control.ts";
import { eachJobCounter, JobCounter } from "../../schema/job.ts";
import { batchesOf, failuresOf, jobOptions, LISTED_REASON_BYTES, saidOf } from "../sessions/job-text.ts";
import {
  type ControlAnswerer,
  type ControlShard,
  type ControlWork,
  filterOf,
  matchesWhere,
  stateOf,
} from "./control-work.ts";

// The facts about a job, with the beginning of its body.

const STATES: Readonly<Record<number, JobFacts["state"]>> = {
  [JobState.Ready]: "ready",
  [JobState.Reserved]: "reserved",
  [JobState.Buried]: "buried",
  [JobState.Delayed]: "delayed",
  [JobState.Moving]: "reserved",
};

/**
 * Returns the facts with at most `bodyMax` bytes of the body, and up to `failuresMax` failures. A
 * negative `bodyMax` omits the body, even an empty one.
 */
export function jobFacts(
  engine: Engine,
  slot: number,
  nowMs: number,
  ports: number,
  bodyMax: number,
  failuresMax: number,
): JobFacts {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const state = page.state[row]!;
  assert(state !== JobState.Free, "facts describe an existing job");
  const atMs = page.deadlineAtMs[row]!;
  const isTimed = state === JobState.Reserved || state === JobState.Delayed;
  const seconds = (ms: number): number => Math.max(0, ms / 1000);
  const bytes = page.bodyBytes[row]!;
  const attempts = page.count(row, JobCounter.reserves) - (page.extras?.attemptsBase[row] ?? 0);
  assert(attempts >= 0, "the number of attempts is not negative");
  return {
    id: page.id[row]!,
    tube: engine.tubeOf(slot).name,
    state: STATES[state]!,
    pri: page.pri[row]!,
    age: seconds(nowMs - page.createdAtMs[row]!),
    delay: page.delaySeconds[row]!,
    ttr: page.ttrSeconds[row]!,
    timeLeft: isTimed && !engine.batches.waits(slot) ? seconds(atMs - nowMs) : 0,
    ...eachJobCounter((_, counter) => page.count(row, counter)),
    attempts,
    origin: engine.policies.attributes.originOf(slot),
    death: (page.extras?.flags[row] ?? 0) & ExtraFlag.Reason,
    failures: failuresOf(engine, slot)
      .slice(0, failuresMax)
      .map(({ atMs, reason, ...failure }) => ({
        ...{ ...failure, age: seconds(nowMs - atMs) },
        reason: failuresMax === 1 ? reason.slice(0, LISTED_REASON_BYTES) : reason,
      })),
    sinceSeconds: isTimed ? undefined : seconds(nowMs - atMs),
    holder: state === JobState.Reserved ? holderOf(page.holder[row]!, ports) : undefined,
    options: jobOptions(engine, slot, nowMs),
    ...batchesOf(engine, slot),
    ...saidOf(engine, slot),
    bytes,
    body: bodyMax < 0 ? undefined : bodyStart(engine, page.body[row]!, Math.min(bytes, bodyMax)),
  };
}

function holderOf(session: number, ports: number): Holder {
  assert(session >= 0, "the holder of a job has a session");
  return { port: session % ports, slot: Math.floor(session / ports) };
}

function bodyStart(engine: Engine, body: number, length: number): Uint8Array {
  const start = new Uint8Array(length);
  if (length > 0) engine.bodies.read(body, 0, start, 0, length);
  return start;
}

// Walks over jobs with known ids, in order, and finds those that match a filter. JobWalk does the
// same for all ids.

/** The parts of a walk that a list of jobs uses. */
type Walk = Pick<JobWalk, "next" | "doneId" | "hasEnded">;

class IdWalk implements Walk {
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

// The ids of a tube's jobs in some states, in ascending order, if that is faster than a walk over
// all jobs of the shard.

/** Collecting and sorting this many takes a tenth of a millisecond. */
const JOBS_MAX = 1000;

/**
 * Returns the ids above `afterId`. Undefined if there are too many, or if the states include
 * reserved jobs, which a tube does not list, as those in transit, which look reserved.
 */
function queuedIds(
  { jobs }: Engine,
  tube: Tube,
  states: readonly StateName[],
  afterId: number,
): Float64Array | undefined {
  const wanted: readonly JobState[] = states.map(stateOf);
  const count = wanted.reduce<number>((sum, state) => sum + tube.jobsIn(state), 0);
  const unlisted = tube.jobsIn(JobState.Reserved) + tube.jobsIn(JobState.Moving);
  if (count > JOBS_MAX || (wanted.includes(JobState.Reserved) && unlisted > 0)) return undefined;
  const ids = new Float64Array(count);
  let length = 0;
  const note = (slot: number): void => {
    const id = jobs.pageOf(slot).id[rowOf(slot)]!;
    if (id > afterId) ids[length++] = id;
  };
  const noteList = (first: number): void => {
    for (let slot = first; slot !== NO_SLOT; slot = jobs.pageOf(slot).next[rowOf(slot)]!) note(slot);
  };
  const has = (state: JobState): boolean => wanted.includes(state) && tube.jobsIn(state) > 0;
  if (has(JobState.Ready)) noteList(tube.ready.first);
  if (has(JobState.Buried)) noteList(tube.buried.first);
  if (has(JobState.Delayed))
    for (let place = 0; place < tube.delayed.size; place++) note(tube.delayed.at(place));
  assert(length <= count, "a tube has no more jobs than it counts");
  return ids.subarray(0, length).sort();
}

// Returns the first jobs of a tube in the order in which they would be reserved, without removing
// them from the queue.

/** Read access to a binary heap: its members by position. */
interface Heap {
  readonly size: number;
  at(position: number): number;
}

/** Returns at most `limit` slots; none for reserved jobs, which have no order within a tube. */
export function nextJobs({ jobs }: Engine, tube: Tube, state: StateName, limit: number): number[] {
  const deadlineMs = (slot: number): number => jobs.pageOf(slot).deadlineAtMs[rowOf(slot)]!;
  const id = (slot: number): number => jobs.pageOf(slot).id[rowOf(slot)]!;
  if (state === "ready" && tube.groups === undefined)
    return firstOf(tube.ready, limit, (a, b) => betterJob(jobs, a, b));
  if (state === "delayed") {
    return firstOf(tube.delayed, limit, (a, b) => {
      const byTime = deadlineMs(a) - deadlineMs(b);
      return byTime < 0 || (byTime === 0 && id(a) < id(b));
    });
  }
  const slots: number[] = [];
  if (state === "reserved") return slots;
  // Groups take turns, which depend on later events. Their jobs are listed in the order in which
  // they became ready.
  const list = state === "ready" ? tube.ready : tube.buried;
  for (let slot = list.first; slot !== NO_SLOT && slots.length < limit; )
    slot = jobs.pageOf(slots[slots.push(slot) - 1]!).next[rowOf(slot)]!;
  return slots;
}

/**
 * Returns the first members. The members whose parents are already taken form a small sorted array.
 */
function firstOf(heap: Heap, limit: number, isBefore: (a: number, b: number) => boolean): number[] {
  assert(limit > 0, "the first jobs are one or more");
  const slots: number[] = [];
  /** Positions, the best last. */
  const open: number[] = heap.size > 0 ? [0] : [];
  const insert = (position: number): void => {
    if (position >= heap.size) return;
    let low = 0;
    let high = open.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(heap.at(position), heap.at(open[middle]!))) low = middle + 1;
      else high = middle;
    }
    open.splice(low, 0, position);
  };
  while (slots.length < limit) {
    const position = open.pop();
    if (position === undefined) break;
    slots.push(heap.at(position));
    insert(position * 2 + 1);
    insert(position * 2 + 2);
  }
  assert(slots.length <= heap.size, "a heap has no more jobs than it counts");
  return slots;
}

/**
 * Jobs in a slice. A slice examines five times as many ids and searches 1 KiB of bodies for each:
 * 0.1 to 0.2 ms.
 */
const SLICE_JOBS = 60;
/** Body bytes in one part. */
const PART_BODY_BYTES_MAX = 64 * 1024;
/** The number of jobs that a filter is applied to when the list is in reserve order. */
const FILTERED_NEXT_MAX = 1000;

export function beginBrowse(shard: ControlShard, question: BrowseQuestion): ControlWork {
  return question.order === "next" ? new BrowseNext(shard, question) : new BrowseScan(shard, question);
}

/** A list that continues from slice to slice. */
abstract class Browse implements ControlWork {
  protected readonly shard: ControlShard;
  protected readonly question: BrowseQuestion;
  readonly #walk: Walk;
  /** Jobs and body bytes that may still be listed. */
  #left: number;
  protected bytesLeft: number;

  constructor(shard: ControlShard, question: BrowseQuestion, walk: Walk) {
    this.shard = shard;
    this.question = question;
    this.#walk = walk;
    this.#left = question.limit;
    assert(question.limit > 0, "a page has room for a job");
    this.bytesLeft = question.bodyBytesMax;
  }

  step(answerer: ControlAnswerer): boolean {
    const { engine, nowMs, portCount } = this.shard;
    const { where } = this.question;
    const budget = turnBudget(SLICE_JOBS);
    const looks = budget.looksLeft;
    const jobs: JobFacts[] = [];
    let bodyBytes = 0;
    let isPast = false;
    while (this.#left > 0 && jobs.length < SLICE_JOBS && bodyBytes < PART_BODY_BYTES_MAX && !isPast) {
      const tube = this.#tube;
      if (tube === null) break;
      const slot = this.#walk.next(tube, budget);
      if (slot === NO_SLOT) break;
      const page = engine.jobs.pageOf(slot);
      isPast = this.isPast(page.id[rowOf(slot)]!);
      if (isPast || !matchesWhere(engine, slot, where, nowMs)) continue;
      const facts = jobFacts(engine, slot, nowMs, portCount, this.bodyMax, 1);
      jobs.push(facts);
      this.#left--;
      bodyBytes += facts.body?.length ?? 0;
      this.bytesLeft -= facts.body?.length ?? 0;
    }
    const examined = looks - budget.looksLeft;
    assert(jobs.length <= SLICE_JOBS, "a part has no more jobs than a slice");
    assert(examined >= 0 && this.#left >= 0, "a list has no more jobs than were asked for");
    const isFull = this.#left === 0;
    const hasEnded = isPast || this.#tube === null || this.#walk.hasEnded || (isFull && !this.isResumable);
    const isLast = hasEnded || isFull || this.shouldPause(examined);
    const part: BrowsePart = { jobs, doneId: this.#walk.doneId, hasEnded, examined };
    answerer.value(part, isLast);
    return isLast;
  }

  /** Whether the rest may be requested later. */
  protected abstract readonly isResumable: boolean;
  /** Returns whether this job and all later ones are out of range. */
  protected abstract isPast(id: number): boolean;
  /** Maximum bytes to include of the next body. */
  protected abstract get bodyMax(): number;
  /** Returns whether to pause after examining this many more ids. */
  protected abstract shouldPause(examined: number): boolean;

  /** The tube to browse: undefined for all, null if it is gone. */
  get #tube(): Tube | undefined | null {
    const { tube } = this.question;
    return tube === undefined ? undefined : (this.shard.engine.findTube(tube) ?? null);
  }
}

/** In order of ids, from one cursor to the next. */
class BrowseScan extends Browse {
  protected override readonly isResumable = true;
  #looksLeft: number;

  constructor(shard: ControlShard, question: BrowseQuestion) {
    super(shard, question, scanWalk(shard, question));
    this.#looksLeft = question.looksMax;
    assert(question.looksMax > 0, "a page examines a job");
  }

  cancel(): void {
    this.#looksLeft = 0;
  }

  protected override isPast(id: number): boolean {
    return id > (this.question.where.idTo ?? Number.POSITIVE_INFINITY);
  }

  protected override get bodyMax(): number {
    return this.question.bodyMax;
  }

  protected override shouldPause(examined: number): boolean {
    this.#looksLeft -= Math.max(1, examined);
    return this.#looksLeft <= 0 || this.bytesLeft <= 0;
  }
}

/**
 * Returns the walk for a question. For a tube with few jobs, it follows the tube's own lists
 * instead of searching the whole shard.
 */
function scanWalk({ engine, nowMs }: ControlShard, question: BrowseQuestion): Walk {
  const { tube: name, states, where, afterId } = question;
  const after = Math.max(afterId, (where.idFrom ?? 1) - 1);
  // A job in transit to another shard is shown as reserved.
  const inTransit = states.includes("reserved") ? stateBit(JobState.Moving) : 0;
  const settled = filterOf(states, where, nowMs);
  const filter = { ...settled, states: settled.states | inTransit };
  const tube = name === undefined ? undefined : engine.findTube(name);
  const ids = tube === undefined ? undefined : queuedIds(engine, tube, states, after);
  return ids === undefined ? engine.walk(filter, after) : new IdWalk(engine, ids, filter, after);
}

/**
 * The first jobs of one state of a tube, determined at the start. It cannot be cancelled: a list in
 * this order has no cursor, so a cut would lose the rest. It is short anyway.
 */
class BrowseNext extends Browse {
  protected override readonly isResumable = false;

  constructor(shard: ControlShard, question: BrowseQuestion) {
    const { engine, nowMs } = shard;
    const { states, where } = question;
    super(shard, question, new IdWalk(engine, firstIds(engine, question), filterOf(states, where, nowMs), 0));
  }

  protected override isPast(): boolean {
    return false;
  }

  /** Truncates bodies that exceed the total. */
  protected override get bodyMax(): number {
    return Math.min(this.question.bodyMax, this.bytesLeft);
  }

  protected override shouldPause(): boolean {
    assert(this.bodyMax < 0 || this.bytesLeft >= 0, "bodies stay within the byte limit");
    return false;
  }
}

function firstIds(engine: Engine, { tube: name, states, where, limit }: BrowseQuestion): number[] {
  assert(name !== undefined && states.length === 1, "the next jobs are those of one tube and state");
  const tube = engine.findTube(name);
  if (tube === undefined) return [];
  const max = Object.keys(where).length === 0 ? limit : Math.max(limit, FILTERED_NEXT_MAX);
  const slots = nextJobs(engine, tube, states[0]!, max);
  assert(slots.length <= max, "no more jobs are listed than were asked for");
  return slots.map((slot) => engine.jobs.pageOf(slot).id[rowOf(slot)]!);
}
