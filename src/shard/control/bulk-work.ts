// Something that is done to many jobs of a tube, some in each turn, upwards by id. Jobs that come later are left alone.

import { Outcome } from "../../engine/engine.ts";
import { NO_SLOT, rowOf } from "../../engine/job-table.ts";
import { type JobWalk, turnBudget } from "../../engine/job-walk.ts";
import { MoveOutcome } from "../../engine/tube-moving.ts";
import type { BulkPart, BulkQuestion } from "../../message/control.ts";
import type { ControlAnswerer, ControlShard, ControlWork } from "./control-work.ts";
import { filterOf, isMeant } from "./where.ts";

/** Jobs that are changed in one turn: half a millisecond of work. */
const TURN_JOBS_MAX = 500;

export class BulkWork implements ControlWork {
  readonly #shard: ControlShard;
  readonly #question: BulkQuestion;
  readonly #walk: JobWalk;
  readonly #firstId: number;
  #affected = 0;
  #examined = 0;
  #isCancelled = false;

  constructor(shard: ControlShard, question: BulkQuestion) {
    this.#shard = shard;
    this.#question = question;
    const { states, where } = question;
    this.#firstId = (where.idFrom ?? 1) - 1;
    this.#walk = shard.engine.walk(filterOf(states, where, shard.nowMs), this.#firstId);
  }

  cancel(): void {
    this.#isCancelled = true;
  }

  step(answerer: ControlAnswerer): boolean {
    const { engine } = this.#shard;
    const { tube, max } = this.#question;
    const budget = turnBudget(TURN_JOBS_MAX);
    const looks = budget.looksLeft;
    let hasEnded = this.#isCancelled;
    for (let left = TURN_JOBS_MAX; left > 0 && !hasEnded; left--) {
      const found = engine.findTube(tube);
      const slot = found === undefined || this.#affected >= max ? NO_SLOT : this.#walk.next(found, budget);
      if (slot === NO_SLOT) {
        hasEnded = found === undefined || this.#affected >= max || this.#walk.hasEnded;
        break;
      }
      hasEnded = this.#isPast(slot) || this.#walk.hasEnded;
      if (this.#act(slot)) this.#affected++;
    }
    hasEnded ||= this.#affected >= max;
    this.#examined += looks - budget.looksLeft;
    const { doneId, lastId } = this.#walk;
    const progress = hasEnded ? 1 : (doneId - this.#firstId) / Math.max(1, lastId - this.#firstId);
    const part: BulkPart = { affected: this.#affected, examined: this.#examined, progress };
    answerer.value(part, hasEnded);
    return hasEnded;
  }

  #isPast(slot: number): boolean {
    const { idTo } = this.#question.where;
    return idTo !== undefined && this.#shard.engine.jobs.pageOf(slot).id[rowOf(slot)]! > idTo;
  }

  #update(id: number): boolean {
    const { engine, nowMs, leaseSession } = this.#shard;
    const { pri, delay, ttr } = this.#question.set ?? {};
    const change = { pri, delayMs: delay === undefined ? undefined : delay * 1000, ttrSeconds: ttr };
    // Reserved jobs are their holders': whose session it is does not matter for the others.
    return engine.update(engine.session(leaseSession), id, change, nowMs) === Outcome.Done;
  }

  /** Does it to one job, if it is meant; returns whether it was. */
  #act(slot: number): boolean {
    const { engine, nowMs } = this.#shard;
    const { act, where } = this.#question;
    const page = engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (!isMeant(page, row, where, nowMs)) return false;
    const id = page.id[row]!;
    if (act === "count") return true;
    if (act === "kick") return engine.kickJob(id, nowMs) === Outcome.Done;
    if (act === "move") return engine.move(slot, this.#question.to!, false, nowMs) === MoveOutcome.Moved;
    if (act === "update") return this.#update(id);
    engine.discard(slot, nowMs);
    return true;
  }
}
