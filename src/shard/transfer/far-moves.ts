// Many jobs that go to tubes on other shards, such as those of one move-jobs: one round of
// transfers after another.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import type { FarMoves, TubeMoving } from "../../engine/job-walk.ts";
import { Outcome } from "../../engine/jobs/ends.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { JobChange } from "../../engine/jobs/new-job.ts";
import { Travel } from "../../engine/transfers.ts";
import { TRANSFER_BYTES_MAX, TRANSFER_JOBS_MAX } from "../../message/transfer.ts";
import { ReplyWord } from "../../protocol/reply.ts";
import type { ReplyWriter } from "../sessions/replies.ts";
import type { ShardSession, SlicedCommand } from "../sessions/shard-session.ts";
import type { Sender, Transfer, TransferSender } from "./transfer-sender.ts";

/**
 * A round is about as many jobs as fit into one transfer, whatever their tubes. The next round
 * waits for its outcome, so that a full tube ends the move with the jobs it has taken.
 */
export class FarMove implements FarMoves, Sender {
  underWay = 0;
  moved = 0;
  /** Why the first refused job was refused; Done if none was. */
  refusal: Outcome = Outcome.Done;
  readonly #transferSender: TransferSender;
  #bytes = 0;
  /** Transfers in flight. */
  readonly #sent = new Set<Transfer>();
  /** Transfers being filled, by tube. */
  readonly #open = new Map<string, Transfer>();

  readonly #travel: Travel;

  constructor(transferSender: TransferSender, travel: Travel) {
    this.#transferSender = transferSender;
    this.#travel = travel;
  }

  get refused(): boolean {
    return this.refusal !== Outcome.Done;
  }

  get isFull(): boolean {
    return this.underWay >= TRANSFER_JOBS_MAX || this.#bytes >= TRANSFER_BYTES_MAX || this.#isSent;
  }

  /** Whether the round is complete. */
  #isSent = false;

  send(slot: number, target: string, asReady: boolean, nowMs: number): void {
    assert(!this.#isSent, "a round in progress takes no more jobs");
    const open = this.#open.get(target);
    let transfer = open;
    if (transfer === undefined || !this.#transferSender.hasRoom(transfer, slot)) {
      if (open !== undefined) this.#sendOne(open);
      transfer = this.#transferSender.begin(target, this.#travel, this);
      transfer.asReady = asReady;
      this.#open.set(target, transfer);
    }
    const before = transfer.bytes;
    this.#transferSender.add(transfer, slot, nowMs);
    assert(transfer.bytes > before, "a job adds to its transfer");
    this.#bytes += transfer.bytes - before;
    this.underWay++;
  }

  /** Sends the transfers that a step has filled. */
  sendAll(): void {
    if (this.#open.size === 0) return;
    for (const transfer of this.#open.values()) this.#sendOne(transfer);
    this.#open.clear();
    this.#isSent = true;
  }

  #sendOne(transfer: Transfer): void {
    assert(!this.#sent.has(transfer), "a transfer is sent once");
    this.#sent.add(transfer);
    this.#transferSender.send(transfer);
  }

  /** One of the jobs in flight, whose arrival will be reported to the sender. */
  get awaitedJob(): number | undefined {
    const [first] = this.#sent;
    return first?.ids[0];
  }

  landed(transfer: Transfer, taken: number, refusal: Outcome): void {
    const wasSent = this.#sent.delete(transfer);
    assert(wasSent, "a transfer of the round lands once");
    assert(taken <= transfer.ids.length, "no more jobs arrive than were sent");
    this.underWay -= transfer.ids.length;
    assert(this.underWay >= 0, "the number of jobs in flight is not negative");
    this.moved += taken;
    if (this.refusal === Outcome.Done) this.refusal = refusal;
    if (this.underWay > 0) return;
    assert(this.#sent.size === 0 && this.#open.size === 0, "a round without jobs in flight has no transfer");
    this.#bytes = 0;
    this.#isSent = false;
  }
}

// A move-jobs of any number of jobs.

export class MoveMany implements SlicedCommand {
  readonly #engine: Engine;
  readonly #replies: ReplyWriter;
  readonly #session: ShardSession;
  readonly #moving: TubeMoving;
  readonly #far: FarMove;

  constructor(engine: Engine, replies: ReplyWriter, session: ShardSession, moving: TubeMoving, far: FarMove) {
    this.#engine = engine;
    this.#replies = replies;
    this.#session = session;
    this.#moving = moving;
    this.#far = far;
  }

  get jobs(): number {
    return this.#moving.work;
  }

  step(jobsMax: number, nowMs: number): boolean {
    this.#engine.runDue(nowMs);
    return this.#moving.step(jobsMax, nowMs);
  }

  rest(): void {
    this.#far.sendAll();
  }

  get awaitedJob(): number | undefined {
    return this.#moving.isWaiting ? this.#far.awaitedJob : undefined;
  }

  finish(): void {
    assert(this.#far.underWay === 0, "a move ends when all its jobs have landed");
    this.#replies.number(this.#session, ReplyWord.moved, this.#moving.moved);
  }
}

// Sends dead jobs to dead-letter tubes on other shards, one round of transfers after another.

/** If there is no memory for a job, it stays buried in its tube, as without a dead-letter tube. */
export class DeadLetters {
  readonly #engine: Engine;
  readonly #round: FarMove;
  #ids: readonly number[] = [];
  #at = 0;
  /** Whether jobs of the last list are left. */
  isUnderWay = false;

  constructor(engine: Engine, transferSender: TransferSender) {
    this.#engine = engine;
    this.#round = new FarMove(transferSender, Travel.Death);
  }

  get hasWork(): boolean {
    return (
      this.#round.underWay === 0 && (this.#at < this.#ids.length || this.#engine.policies.deaths.someLeave)
    );
  }

  /** Begins a round if there is something to send and none is in progress. */
  step(nowMs: number): void {
    if (!this.hasWork) return;
    assert(!this.#round.isFull, "a round that begins has room");
    for (let left = TRANSFER_JOBS_MAX; left > 0 && this.#mayGoOn(); left--) this.#take(nowMs);
    this.#round.sendAll();
    this.isUnderWay = this.#at < this.#ids.length;
  }

  #mayGoOn(): boolean {
    if (this.#at === this.#ids.length) {
      this.#ids = this.#engine.policies.deaths.takeLeaving();
      this.#at = 0;
    }
    return this.#at < this.#ids.length && !this.#round.isFull;
  }

  #take(nowMs: number): void {
    const id = this.#ids[this.#at++]!;
    assert(id > 0, "a job that leaves has an id");
    const target = this.#engine.transfers.leavesFor(id, nowMs);
    if (target === "") return;
    const slot = this.#engine.find(id);
    assert(slot !== NO_SLOT, "a dead job that leaves is still here");
    this.#round.send(slot, target, true, nowMs);
  }
}

// An update-job that moves its job to a tube on another shard.

/**
 * The job stays unchanged here until it exists there with the changes. If the other shard refuses
 * it, nothing has changed.
 */
export class FarUpdate implements SlicedCommand, Sender {
  readonly jobs = 1;
  readonly #answer: (outcome: Outcome) => void;
  readonly #id: number;
  #outcome: Outcome | undefined;

  /** Sends a job, which the session may change, to `tube` on another shard. */
  constructor(
    { engine, transferSender, nowMs }: { engine: Engine; transferSender: TransferSender; nowMs: number },
    id: number,
    tube: string,
    change: JobChange,
    answer: (outcome: Outcome) => void,
  ) {
    this.#answer = answer;
    this.#id = id;
    const slot = engine.find(id);
    assert(slot !== NO_SLOT, "a changed job is on this shard");
    const isHeld = engine.jobs.pageOf(slot).state[rowOf(slot)] === JobState.Reserved;
    const transfer = transferSender.begin(tube, isHeld ? Travel.Handed : Travel.Update, this);
    // Moving a reserved job releases it.
    transfer.delayMs = change.delayMs ?? (isHeld ? 0 : undefined);
    transfer.facts = engine.changes.changedFacts(slot, change, nowMs);
    transferSender.add(transfer, slot, nowMs);
    transferSender.send(transfer);
  }

  get awaitedJob(): number | undefined {
    return this.#outcome === undefined ? this.#id : undefined;
  }

  step(): boolean {
    return this.#outcome !== undefined;
  }

  landed(_: Transfer, taken: number, refusal: Outcome): void {
    assert(this.#outcome === undefined, "the job of an update lands once");
    assert(taken <= 1, "an update sends one job");
    this.#outcome = taken === 1 ? Outcome.Done : refusal;
  }

  finish(): void {
    assert(this.#outcome !== undefined, "an update ends when its job has landed");
    this.#answer(this.#outcome);
  }
}
