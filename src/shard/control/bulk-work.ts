// A bulk operation on the jobs of a tube: some in each turn, in order of their ids. Jobs that
// arrive later are not affected.

import { assert } from "../../base/assert.ts";
import { Outcome } from "../../engine/engine.ts";
import { type JobWalk, MoveOutcome, turnBudget, type WalkBudget } from "../../engine/job-walk.ts";
import { ENDS } from "../../engine/jobs/ends.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import { Travel } from "../../engine/transfers.ts";
import type { Answers, BulkPart, BulkQuestion, Questions } from "../../message/control.ts";
import { SLICE_MS } from "../sessions/sliced-commands.ts";
import { FarMove } from "../transfer/far-moves.ts";
import type { TransferSender } from "../transfer/transfer-sender.ts";
import {
  type ControlAnswerer,
  type ControlShard,
  type ControlWork,
  filterOf,
  matchesWhere,
} from "./control-work.ts";

// An operator's action on one job.

export function actOnJob(
  shard: ControlShard,
  { id, act, force, to }: Questions["job-act"],
): Answers["job-act"] {
  const { engine, nowMs } = shard;
  engine.runDue(nowMs);
  const slot = engine.find(id);
  if (slot === NO_SLOT) return "not-found";
  // The job is in transit to another shard.
  if (engine.transfers.isMoving(id)) return "reserved";
  const isReserved = engine.jobs.pageOf(slot).state[rowOf(slot)] === JobState.Reserved;
  if (act === "release") return engine.timeOutNow(id, nowMs) === Outcome.Done ? "done" : "state";
  if (act === "kick") return engine.kickJob(id, nowMs) === Outcome.Done ? "done" : "state";
  if (isReserved && (act === "move" || !force)) return "reserved";
  if (act === "move") return moveTo(shard, slot, to!);
  engine.discard(slot, ENDS.Deleted, nowMs);
  return "done";
}

function moveTo({ engine, nowMs }: ControlShard, slot: number, to: string): Answers["job-act"] {
  const outcome = engine.changes.move(slot, to, false, nowMs);
  if (outcome === MoveOutcome.Elsewhere) return "elsewhere";
  return outcome === MoveOutcome.Full ? "full" : "done";
}

/** Jobs changed in one turn. */
const TURN_JOBS_MAX = 500;
/** Jobs between two clock readings. A turn ends after SLICE_MS, even with fewer jobs. */
const JOBS_PER_CLOCK_READING = 25;

export class BulkWork implements ControlWork {
  readonly #shard: ControlShard;
  readonly #question: BulkQuestion;
  readonly #walk: JobWalk;
  readonly #firstId: number;
  readonly #far: FarMove;
  #affectedHere = 0;
  #examined = 0;
  /** No further jobs are started. */
  #isOver = false;
  #isFull = false;

  constructor(shard: ControlShard, transferSender: TransferSender, question: BulkQuestion) {
    this.#shard = shard;
    this.#question = question;
    const { states, where } = question;
    this.#far = new FarMove(transferSender, Travel.Move);
    // No job has the id 0, which a client may say.
    this.#firstId = Math.max(1, where.idFrom ?? 1) - 1;
    assert(this.#firstId >= 0, "a walk begins at an id");
    this.#walk = shard.engine.walk(filterOf(states, where, shard.nowMs), this.#firstId);
  }

  cancel(): void {
    this.#isOver = true;
  }

  /** Whether it has to wait for jobs to arrive at other shards. */
  get isWaiting(): boolean {
    return this.#far.underWay > 0 && (this.#far.isFull || this.#isOver);
  }

  step(answerer: ControlAnswerer): boolean {
    const budget = turnBudget(TURN_JOBS_MAX);
    const looks = budget.looksLeft;
    if (this.#mayGoOn) this.#goOn(budget);
    this.#isOver ||= !this.#mayGoOn;
    this.#far.sendAll();
    this.#examined += looks - budget.looksLeft;
    const hasEnded = this.#isOver && this.#far.underWay === 0;
    assert(
      this.#affectedHere + this.#far.moved <= this.#question.max,
      "no more jobs change than were allowed",
    );
    answerer.value(this.#part(hasEnded), hasEnded);
    return hasEnded;
  }

  #part(hasEnded: boolean): BulkPart {
    const { doneId, lastId } = this.#walk;
    const progress = hasEnded ? 1 : (doneId - this.#firstId) / Math.max(1, lastId - this.#firstId);
    assert(progress >= 0 && progress <= 1, "progress is between 0 and 1");
    const part: BulkPart = {
      affected: this.#affectedHere + this.#far.moved,
      examined: this.#examined,
      progress,
    };
    if (!hasEnded) return part;
    if (this.#far.refusal === Outcome.NoRoom) return { ...part, refusal: "OUT_OF_MEMORY" };
    return this.#isFull || this.#far.refused ? { ...part, refusal: "TUBE_FULL" } : part;
  }

  get #mayGoOn(): boolean {
    const taken = this.#affectedHere + this.#far.moved + this.#far.underWay;
    return (
      !this.#isOver &&
      !this.#isFull &&
      !this.#far.refused &&
      taken < this.#question.max &&
      !this.#walk.hasEnded &&
      this.#shard.engine.findTube(this.#question.tube) !== undefined
    );
  }

  #goOn(budget: WalkBudget): void {
    const { engine } = this.#shard;
    const endsAtMs = this.#shard.clock() + SLICE_MS;
    for (let left = TURN_JOBS_MAX; left > 0 && this.#mayGoOn && !this.#far.isFull; left--) {
      if (left % JOBS_PER_CLOCK_READING === 0 && this.#shard.clock() >= endsAtMs) return;
      const slot = this.#walk.next(engine.findTube(this.#question.tube), budget);
      if (slot === NO_SLOT) return;
      this.#isOver = this.#isPast(slot);
      if (this.#act(slot)) this.#affectedHere++;
      assert(this.#affectedHere <= this.#question.max, "no more jobs change here than were allowed");
    }
  }

  #isPast(slot: number): boolean {
    const { idTo } = this.#question.where;
    return idTo !== undefined && this.#shard.engine.jobs.pageOf(slot).id[rowOf(slot)]! > idTo;
  }

  #update(id: number): boolean {
    const { engine, nowMs, leaseSession } = this.#shard;
    const { pri, delay, ttr } = this.#question.set ?? {};
    const change = { pri, delayMs: delay === undefined ? undefined : delay * 1000, ttrSeconds: ttr };
    // The session matters only for reserved jobs, which belong to their holders.
    return engine.changes.update(engine.session(leaseSession), id, change, nowMs) === Outcome.Done;
  }

  /** Moves a job. One that goes to another shard counts after its arrival. */
  #move(slot: number, to: string, asReady: boolean): boolean {
    assert(to !== "", "a job moves to a tube");
    const { engine, nowMs } = this.#shard;
    const outcome = engine.changes.move(slot, to, asReady, nowMs);
    if (outcome === MoveOutcome.Elsewhere) this.#far.send(slot, to, asReady, nowMs);
    if (outcome === MoveOutcome.Full) this.#isFull = true;
    return outcome === MoveOutcome.Moved;
  }

  /**
   * Moves a dead job to the tube where it died, and makes one that is buried there ready. The job
   * regains all its attempts.
   */
  #redrive(slot: number): boolean {
    const { engine } = this.#shard;
    const origin = engine.changes.originOf(slot);
    if (origin === engine.tubeOf(slot).name && engine.changes.revive(slot)) return true;
    return origin !== "" && this.#move(slot, origin, true);
  }

  /** Returns whether the counted operation would change a job. */
  #wouldAct(slot: number): boolean {
    const { engine } = this.#shard;
    const { of } = this.#question;
    // Until its batch has ended, nothing makes such a job ready.
    if (of === "kick") return !engine.batches.waits(slot);
    return of !== "redrive" || engine.changes.originOf(slot) !== "";
  }

  /** Applies the operation to one job if it matches. Returns whether it did. */
  #act(slot: number): boolean {
    const { engine, nowMs } = this.#shard;
    const { act, where } = this.#question;
    if (!matchesWhere(engine, slot, where, nowMs)) return false;
    const id = engine.jobs.pageOf(slot).id[rowOf(slot)]!;
    if (act === "count") return this.#wouldAct(slot);
    if (act === "kick") return engine.kickJob(id, nowMs) === Outcome.Done;
    if (act === "move") return this.#move(slot, this.#question.to!, false);
    if (act === "redrive") return this.#redrive(slot);
    if (act === "update") return this.#update(id);
    engine.discard(slot, ENDS.Cleared, nowMs);
    return true;
  }
}
