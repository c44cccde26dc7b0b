// Jobs of a shard, page by page: upwards by id, or the first ones in the order in which they would be handed out.

import type { Engine } from "../../engine/engine.ts";
import { NO_SLOT, rowOf } from "../../engine/job-table.ts";
import { type JobWalk, turnBudget } from "../../engine/job-walk.ts";
import type { Tube } from "../../engine/tube.ts";
import type { BrowsePart, BrowseQuestion, JobFacts } from "../../message/control.ts";
import type { ControlAnswerer, ControlShard, ControlWork } from "./control-work.ts";
import { jobFacts } from "./job-facts.ts";
import { nextJobs } from "./next-jobs.ts";
import { filterOf, isMeant } from "./where.ts";

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

  constructor(shard: ControlShard, question: BrowseQuestion) {
    this.#shard = shard;
    this.#question = question;
    const { states, where, afterId, limit, looksMax } = question;
    const after = Math.max(afterId, (where.idFrom ?? 1) - 1);
    this.#walk = shard.engine.walk(filterOf(states, where, shard.nowMs), after);
    this.#left = limit;
    this.#looksLeft = looksMax;
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
    const hasEnded = isPast || this.#tube === null || this.#walk.hasEnded;
    const isLast = hasEnded || this.#left === 0 || this.#looksLeft <= 0;
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

/** The first jobs of one state of a tube, in one part. */
class BrowseNext implements ControlWork {
  readonly #engine: Engine;
  readonly #shard: ControlShard;
  readonly #question: BrowseQuestion;

  constructor(shard: ControlShard, question: BrowseQuestion) {
    this.#engine = shard.engine;
    this.#shard = shard;
    this.#question = question;
  }

  step(answerer: ControlAnswerer): boolean {
    const { tube: name, states, where, limit, bodyMax } = this.#question;
    const { nowMs, portCount } = this.#shard;
    const tube = this.#engine.findTube(name!);
    const slots = tube === undefined ? [] : nextJobs(this.#engine, tube, states[0]!, limit);
    const jobs = slots
      .filter((slot) => isMeant(this.#engine.jobs.pageOf(slot), rowOf(slot), where, nowMs))
      .map((slot) => jobFacts(this.#engine, slot, nowMs, portCount, bodyMax));
    const part: BrowsePart = { jobs, doneId: 0, hasEnded: true, examined: slots.length };
    answerer.value(part, true);
    return true;
  }
}
