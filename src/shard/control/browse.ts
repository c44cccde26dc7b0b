// Jobs of a shard, page by page: upwards by id, or the first ones in the order in which they would be handed out.

import { NO_SLOT, rowOf } from "../../engine/job-table.ts";
import { type JobWalk, turnBudget } from "../../engine/job-walk.ts";
import type { Tube } from "../../engine/tube.ts";
import type { BrowsePart, BrowseQuestion, JobFacts } from "../../message/control.ts";
import type { ControlAnswerer, ControlShard, ControlWork } from "./control-work.ts";
import { jobFacts } from "./job-facts.ts";
import { nextJobs } from "./next-jobs.ts";
import { filterOf, isMeant, stateOf } from "./where.ts";

/** A slice looks at five times as many ids, and searches 4 KiB of bodies for each: 0.1 to 0.2 ms. */
const SLICE_JOBS = 60;
/** Bytes of bodies in one part. */
const PART_BODY_BYTES_MAX = 64 * 1024;

export function beginBrowse(shard: ControlShard, question: BrowseQuestion): ControlWork {
  return question.order === "next" ? new BrowseNext(shard, question) : new BrowseScan(shard, question);
}

class BrowseScan implements ControlWork {
  readonly #shard: ControlShard;
  readonly #question: BrowseQuestion;
  readonly #walk: JobWalk;
  #left: number;
  #looksLeft: number;
  #bytesLeft: number;

  constructor(shard: ControlShard, question: BrowseQuestion) {
    this.#shard = shard;
    this.#question = question;
    const { states, where, afterId, limit, looksMax } = question;
    const after = Math.max(afterId, (where.idFrom ?? 1) - 1);
    this.#walk = shard.engine.walk(filterOf(states, where, shard.nowMs), after);
    this.#left = limit;
    this.#looksLeft = looksMax;
    this.#bytesLeft = question.bodyBytesMax;
  }

  cancel(): void {
    this.#looksLeft = 0;
  }

  step(answerer: ControlAnswerer): boolean {
    const { engine, nowMs, portCount } = this.#shard;
    const { where, bodyMax } = this.#question;
    const budget = turnBudget(SLICE_JOBS);
    const looks = budget.looksLeft;
    const jobs: JobFacts[] = [];
    let bodyBytes = 0;
    let isPast = false;
    while (this.#left > 0 && bodyBytes < PART_BODY_BYTES_MAX && !isPast) {
      const tube = this.#tube;
      if (tube === null) break;
      const slot = this.#walk.next(tube, budget);
      if (slot === NO_SLOT) break;
      const page = engine.jobs.pageOf(slot);
      isPast = page.id[rowOf(slot)]! > (where.idTo ?? Number.POSITIVE_INFINITY);
      if (isPast || !isMeant(page, rowOf(slot), where, nowMs)) continue;
      const facts = jobFacts(engine, slot, nowMs, portCount, bodyMax);
      jobs.push(facts);
      this.#left--;
      bodyBytes += facts.body?.length ?? 0;
    }
    const examined = looks - budget.looksLeft;
    this.#looksLeft -= Math.max(1, examined);
    this.#bytesLeft -= bodyBytes;
    const hasEnded = isPast || this.#tube === null || this.#walk.hasEnded;
    const isLast = hasEnded || this.#left === 0 || this.#looksLeft <= 0 || this.#bytesLeft <= 0;
    const part: BrowsePart = { jobs, doneId: this.#walk.doneId, hasEnded, examined };
    answerer.value(part, isLast);
    return isLast;
  }

  /** The tube that is browsed: undefined for all, null if it is gone. */
  get #tube(): Tube | undefined | null {
    const { tube } = this.#question;
    return tube === undefined ? undefined : (this.#shard.engine.findTube(tube) ?? null);
  }
}

/**
 * The first jobs of one state of a tube: which ones is decided at once, and they are told of part by part. There is no
 * cancel: a list in this order has no cursor, so what time cuts off would be lost, and it is never long.
 */
class BrowseNext implements ControlWork {
  readonly #shard: ControlShard;
  readonly #question: BrowseQuestion;
  /** Ids of those that are not told of yet; undefined before the first slice. */
  #left: number[] | undefined;
  #bytesLeft: number;

  constructor(shard: ControlShard, question: BrowseQuestion) {
    this.#shard = shard;
    this.#question = question;
    this.#bytesLeft = question.bodyBytesMax;
  }

  step(answerer: ControlAnswerer): boolean {
    const { engine, nowMs, portCount } = this.#shard;
    const { states, where, bodyMax } = this.#question;
    const tube = engine.findTube(this.#question.tube!);
    this.#left ??= this.#firstIds(tube);
    const jobs: JobFacts[] = [];
    let bodyBytes = 0;
    let examined = 0;
    while (examined < Math.min(SLICE_JOBS, this.#left.length) && bodyBytes < PART_BODY_BYTES_MAX) {
      const slot = engine.find(this.#left[examined++]!);
      // Between two slices a job may have gone, to another state too.
      if (slot === NO_SLOT || tube === undefined || engine.tubeOf(slot) !== tube) continue;
      const page = engine.jobs.pageOf(slot);
      if (page.state[rowOf(slot)] !== stateOf(states[0]!)) continue;
      if (!isMeant(page, rowOf(slot), where, nowMs)) continue;
      // What is too much together is cut off: a list in this order has no cursor that could go on.
      const facts = jobFacts(engine, slot, nowMs, portCount, Math.min(bodyMax, this.#bytesLeft - bodyBytes));
      jobs.push(facts);
      bodyBytes += facts.body?.length ?? 0;
    }
    this.#bytesLeft -= bodyBytes;
    this.#left.splice(0, examined);
    const hasEnded = this.#left.length === 0;
    const part: BrowsePart = { jobs, doneId: 0, hasEnded, examined };
    answerer.value(part, hasEnded);
    return hasEnded;
  }

  #firstIds(tube: Tube | undefined): number[] {
    const { engine } = this.#shard;
    if (tube === undefined) return [];
    const slots = nextJobs(engine, tube, this.#question.states[0]!, this.#question.limit);
    return slots.map((slot) => engine.jobs.pageOf(slot).id[rowOf(slot)]!);
  }
}
