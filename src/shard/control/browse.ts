// Lists jobs of a shard page by page, in order of their ids or in the order in which they would be
// reserved.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import { stateBit, turnBudget } from "../../engine/walks/job-walk.ts";
import type { BrowsePart, BrowseQuestion, JobFacts } from "../../message/control.ts";
import type { ControlAnswerer, ControlShard, ControlWork } from "./control-work.ts";
import { IdWalk, type Walk } from "./id-walk.ts";
import { jobFacts } from "./job-facts.ts";
import { nextJobs } from "./next-jobs.ts";
import { queuedIds } from "./queued-ids.ts";
import { filterOf, matchesWhere } from "./where.ts";

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
