// A reserve over several shards: the acceptor collects, chooses, waits.

import { assert } from "../../base/assert.ts";
import { RequestFlag, RequestOp, WaitView } from "../../message/request.ts";
import {
  CandidateView,
  FloorView,
  PlaceView,
  ResponseKind,
  TurnsView,
  WaitDueView,
} from "../../message/response.ts";
import { DEADLINE_MARGIN_MS } from "../../protocol/limits.ts";
import { Reply } from "../../protocol/reply.ts";
import { type Request, ReserveOrder, type Span } from "../../protocol/request.ts";
import type { WatchOrder } from "../state/watch-list.ts";
import type { BatchFill } from "./batch-fill.ts";
import type { Conversation, ConversationHost, SerialQueue, Signal } from "./conversation.ts";

/** The next step after a shard that was asked to give jobs has answered. */
export const Next = {
  /** Wait for more answers or for the end. */
  GoOn: 0,
  /** Choose again among the known candidates. */
  Choose: 1,
  /** Ask all shards again. */
  Collect: 2,
} as const;
export type Next = (typeof Next)[keyof typeof Next];

/** A strategy that takes jobs for a reserve over several shards. */
export interface Picker {
  /** The queue to wait in before asking the shards, if there is one. */
  readonly queue?: SerialQueue;
  /** Called before all shards are asked. */
  begin?(): void;
  /** Turns a message into a request that a shard name its best jobs without taking them. */
  ask(message: Request): void;
  /** Takes a shard's answer to that request. */
  note(signal: Signal): void;
  /** Whether the answers show that all shards have to be asked again before a choice. */
  readonly isOutdated?: boolean;
  /** What the batch waits for, if it waits for more than a job. */
  readonly fill?: BatchFill | undefined;
  /** Adds to the message that makes a shard wait for one job. */
  fillWait?(message: Request): void;
  /** Asks shards for the best of their candidates. Returns false if there are none. */
  take(): boolean;
  /** Takes an answer to `take` that is not a reply for the client. */
  onRefusal(signal: Signal): Next;
  /** Takes jobs, or part of them, that the acceptor assembles. */
  onGathered?(shard: number, flags: number, bytes: Span): Next;
  onRoom?(): void;
  onClosed?(): void;
}

// A reserve over several shards: a state machine of the acceptor. No job is ever held back for it.
// A job is either ready or reserved, so other clients never see a state in between.
//
// The states (for one job; a batch differs only in what it takes and how, see pick-batch.ts):
// - Collecting: Every shard concerned runs its due timers. It names its best job (a candidate)
//   without taking it, and the soonest deadline among the jobs that the connection holds there.
// - Taking: The shard of the best candidate takes its best job, provided that it is still at least
//   as good as the second-best candidate. The reply then comes from that shard. Otherwise the shard
//   names its new best job, and the choice is made again. Each failure means that another client
//   got a job, so there is always progress. (In an order by time, turns change even without that:
//   see `PickInTurn`.)
// - Waiting: No shard had a job. If a reservation is within its margin, the reply is DEADLINE_SOON;
//   if the client does not want to wait, it is TIMED_OUT. Otherwise the wait gets a number in the
//   connection's claim word, and every shard is told to wait. A shard that gets a job and changes
//   the word to 0 gives the job to the connection. All others find the word changed and pass their
//   job to the next waiter.
// - AwaitingBarrier: The client does not want to wait. Before the reply, the other acceptors check
//   whether the holder of a job has just disconnected (shard/commands/read-barrier.ts). Then all
//   shards are asked once more.
// - Rechecking: A shard reports that the wait is due: a margin began or, on the lead shard, the
//   timeout expired. All shards run their due timers first, because a job that becomes ready at the
//   same moment wins. If no shard has claimed the wait after that, the acceptor claims it and
//   answers.
// A batch that fills (batch-fill.ts) goes from Collecting to Waiting while jobs are missing. No
// shard claims that wait: a report makes the acceptor collect again, and the shards wait meanwhile.
//
// The guarantee: a job that was ready when the reserve arrived, and stays ready, is never passed
// over for a worse one. Such a job is its shard's candidate or worse than that candidate, and the
// job taken is better than all candidates. A job that reaches a shard after the shard was asked is
// later than the reserve and may be passed over.

const State = { Collecting: 0, Taking: 1, Waiting: 2, Rechecking: 3, AwaitingBarrier: 4 } as const;
type State = (typeof State)[keyof typeof State];

interface Participant {
  readonly shard: number;
  soonestMs: number;
}

export class SharedReserve implements Conversation {
  readonly #host: ConversationHost;
  readonly #participants: Participant[];
  readonly #picker: Picker;
  readonly #timeoutAtMs: number;
  #state: State = State.Collecting;
  #left = 0;
  #waitNumber = 0;
  #mayWait: boolean;
  #hadBarrier: boolean;
  /** Whether shards wait for a batch to fill. */
  #isFilling = false;
  /** RESERVED has arrived while answers to a recheck were still in flight. */
  #answered = false;
  /** The client has sent more bytes, which abort an abortable reserve. */
  #isAborted = false;

  /** `shards` are those with watched tubes or held jobs. `timeoutMs` may be 0 or Infinity. */
  constructor(host: ConversationHost, shards: readonly number[], timeoutMs: number, picker: Picker) {
    this.#host = host;
    this.#picker = picker;
    this.#timeoutAtMs = host.nowMs() + timeoutMs;
    this.#mayWait = timeoutMs > 0;
    this.#hadBarrier = !host.barrierHelps;
    this.#participants = shards.map((shard) => ({ shard, soonestMs: Number.POSITIVE_INFINITY }));
    this.#collect();
  }

  onSignal(signal: Signal): void {
    const { shard, kind, soonestMs } = signal;
    if (kind === ResponseKind.WaitDue) {
      this.#onDue(WaitDueView.waitNumber(signal));
      return;
    }
    const participant = this.#participants.find((each) => each.shard === shard);
    assert(participant !== undefined, "only participating shards answer");
    participant.soonestMs = soonestMs;
    if (this.#state === State.Taking) {
      this.#next(this.#picker.onRefusal(signal));
      return;
    }
    if (this.#state === State.Collecting) this.#picker.note(signal);
    if (--this.#left === 0) {
      if (this.#state === State.Collecting) this.#collected();
      else if (this.#state === State.AwaitingBarrier) this.#collect();
      else this.#endIfDue();
    }
  }

  #onDue(waitNumber: number): void {
    if (this.#state !== State.Waiting || waitNumber !== this.#waitNumber) return;
    if (this.#picker.fill === undefined) this.#recheck();
    else if (this.#host.claimWait(waitNumber)) this.#collect();
  }

  /** Handles RESERVED, either from Take or from the shard that claimed the wait. */
  onReply(shard: number): void {
    if (this.#state === State.Waiting || this.#state === State.Rechecking) {
      for (const other of this.#participants)
        if (other.shard !== shard) this.#tell(other.shard, RequestOp.StopWait);
    }
    // Wait for the outstanding answers to a recheck: the next command must not receive them.
    if (this.#state === State.Rechecking && this.#left > 0) {
      this.#answered = true;
      return;
    }
    this.#host.finishConversation(undefined);
  }

  onHalfClose(): void {
    this.#mayWait = false;
    if (this.#state === State.Waiting && this.#host.claimWait(this.#waitNumber)) this.#finish(Reply.timedOut);
  }

  /** Ends the wait, because more bytes of the client abort an abortable reserve. */
  onInput(): void {
    this.#isAborted = true;
    this.#mayWait = false;
    if (this.#state === State.Waiting && this.#host.claimWait(this.#waitNumber)) this.#finish(Reply.aborted);
  }

  onGathered(shard: number, flags: number, bytes: Span): void {
    const next = this.#picker.onGathered?.(shard, flags, bytes);
    if (next !== undefined) this.#next(next);
  }

  onRoom(): void {
    this.#picker.onRoom?.();
  }

  onClosed(): void {
    this.#picker.queue?.leave(this);
    this.#picker.onClosed?.();
  }

  #next(next: Next): void {
    if (next === Next.Choose) this.#choose();
    else if (next === Next.Collect) this.#collect();
  }

  #collect(): void {
    this.#state = State.Collecting;
    const { queue } = this.#picker;
    if (queue === undefined) this.onTurn();
    else queue.enter(this);
  }

  onTurn(): void {
    this.#left = this.#participants.length;
    this.#picker.begin?.();
    for (const { shard } of this.#participants) {
      const question = this.#host.message(RequestOp.Collect);
      this.#picker.ask(question);
      this.#host.post(shard, question);
    }
  }

  #collected(): void {
    if (this.#picker.isOutdated === true) this.#collect();
    else if (this.#mayTake()) this.#choose();
    else {
      this.#picker.queue?.leave(this);
      this.#wait();
    }
  }

  /** Returns whether the jobs that are ready go now, even if a batch is not full. */
  #mayTake(): boolean {
    const { fill } = this.#picker;
    if (fill === undefined) return true;
    const nowMs = this.#host.nowMs();
    if (nowMs >= this.#timeoutAtMs) this.#mayWait = false;
    return fill.isDue(nowMs) || !this.#mayWait || this.#inMargin();
  }

  #choose(): void {
    this.#state = State.Taking;
    const takes = this.#picker.take();
    if (takes) this.#endFilling();
    // Leave only now, so that the questions of the next reserve follow the messages just posted.
    this.#picker.queue?.leave(this);
    if (!takes) this.#noJob();
  }

  #noJob(): void {
    if (this.#inMargin()) this.#end(Reply.deadlineSoon);
    else if (this.#isAborted) this.#end(Reply.aborted);
    else if (!this.#mayWait && !this.#hadBarrier) this.#awaitBarrier();
    else if (!this.#mayWait) this.#end(Reply.timedOut);
    else this.#wait();
  }

  #awaitBarrier(): void {
    this.#hadBarrier = true;
    this.#state = State.AwaitingBarrier;
    this.#left = this.#participants.length;
    this.#tellAll(RequestOp.AwaitBarrier);
  }

  #wait(): void {
    this.#state = State.Waiting;
    this.#waitNumber = this.#host.openWait();
    const { fill } = this.#picker;
    this.#isFilling = fill !== undefined;
    // A wait that has begun ends without a barrier.
    if (this.#isFilling) this.#hadBarrier = true;
    const endsAtMs = Math.min(this.#timeoutAtMs, fill?.lingerEndsAtMs ?? Number.POSITIVE_INFINITY);
    let lead = true;
    for (const participant of this.#participants) {
      const wait = this.#host.message(RequestOp.WaitShared);
      wait.flags = lead ? RequestFlag.Lead : 0;
      if (fill === undefined) this.#picker.fillWait?.(wait);
      else fill.fillWait(wait, participant.shard);
      WaitView.fill(wait, this.#waitNumber, lead ? endsAtMs : Number.POSITIVE_INFINITY);
      this.#host.post(participant.shard, wait);
      lead = false;
    }
  }

  #recheck(): void {
    this.#state = State.Rechecking;
    this.#left = this.#participants.length;
    this.#tellAll(RequestOp.Recheck);
  }

  #endIfDue(): void {
    if (this.#answered) {
      this.#host.finishConversation(undefined);
      return;
    }
    // Lost: a shard has claimed the wait, and its RESERVED is on the way.
    if (!this.#host.claimWait(this.#waitNumber)) return;
    if (this.#inMargin()) this.#finish(Reply.deadlineSoon);
    else if (this.#isAborted) this.#finish(Reply.aborted);
    else if (!this.#mayWait || this.#host.nowMs() >= this.#timeoutAtMs) this.#finish(Reply.timedOut);
    else {
      // The reservation whose margin began is gone by now: keep waiting.
      this.#stopWaits();
      this.#collect();
    }
  }

  #finish(reply: Uint8Array): void {
    this.#isFilling = false;
    this.#stopWaits();
    this.#host.finishConversation(reply);
  }

  #end(reply: Uint8Array): void {
    this.#endFilling();
    this.#host.finishConversation(reply);
  }

  #endFilling(): void {
    if (this.#isFilling) this.#stopWaits();
    this.#isFilling = false;
  }

  #stopWaits(): void {
    this.#tellAll(RequestOp.StopWait);
  }

  #tellAll(op: number): void {
    for (const participant of this.#participants) this.#tell(participant.shard, op);
  }

  #tell(shard: number, op: number): void {
    this.#host.post(shard, this.#host.message(op));
  }

  #inMargin(): boolean {
    const nowMs = this.#host.nowMs();
    return this.#participants.some((each) => nowMs >= each.soonestMs - DEADLINE_MARGIN_MS);
  }
}

// Chooses the best job of several shards, for `reserve`.

interface Candidate {
  readonly shard: number;
  readonly pri: number;
  readonly id: number;
}

const NO_ID_BOUND = Number.POSITIVE_INFINITY;
const NO_PRI_BOUND = 0xffffffff;

export class PickOne implements Picker {
  readonly #host: ConversationHost;
  /** Candidates by shard, for shards that have one. */
  readonly #candidates = new Map<number, Candidate>();

  constructor(host: ConversationHost) {
    this.#host = host;
  }

  ask(message: Request): void {
    message.op = RequestOp.Collect;
  }

  note(signal: Signal): void {
    const { shard } = signal;
    if (signal.kind !== ResponseKind.Candidate) this.#candidates.delete(shard);
    else {
      const pri = CandidateView.pri(signal);
      this.#candidates.set(shard, { shard, pri, id: CandidateView.id(signal) });
    }
  }

  take(): boolean {
    let best: Candidate | undefined;
    let second: Candidate | undefined;
    for (const candidate of this.#candidates.values()) {
      if (best === undefined || better(candidate, best)) {
        second = best;
        best = candidate;
      } else if (second === undefined || better(candidate, second)) {
        second = candidate;
      }
    }
    if (best === undefined) return false;
    const take = this.#host.message(RequestOp.Take);
    take.pri = second?.pri ?? NO_PRI_BOUND;
    take.id = second?.id ?? NO_ID_BOUND;
    this.#host.post(best.shard, take);
    return true;
  }

  onRefusal(signal: Signal): Next {
    this.note(signal);
    return Next.Choose;
  }
}

function better(a: Candidate, b: Candidate): boolean {
  return a.pri < b.pri || (a.pri === b.pri && a.id < b.id);
}

// Chooses the job whose turn it is among several shards, for `reserve` of a connection that picks
// by weight.

interface TurnCandidate {
  readonly shard: number;
  readonly place: number;
  /** The earliest turn of the shard's tubes with a job. */
  readonly earliest: number;
  readonly pri: number;
  readonly id: number;
}

/** Worse than any candidate. */
const NO_BOUND = { place: Number.POSITIVE_INFINITY, pri: 0xffffffff, id: Number.POSITIVE_INFINITY } as const;

export class PickInTurn implements Picker {
  readonly #host: ConversationHost;
  readonly #order: WatchOrder;
  /** Candidates by shard, for shards that have one. */
  readonly #inTurn = new Map<number, TurnCandidate>();
  /**
   * Whether a shard gives its best job whatever its place in the order. In an order by time, all
   * places advance while messages travel, so two shards could refuse in turn for ever.
   */
  #isUnbounded = false;

  constructor(host: ConversationHost, order: WatchOrder) {
    this.#host = host;
    this.#order = order;
  }

  begin(): void {
    this.#inTurn.clear();
    this.#isUnbounded = false;
    this.#order.ask();
  }

  ask(message: Request): void {
    message.op = RequestOp.Collect;
    FloorView.fill(message, this.#order.floor);
  }

  note(signal: Signal): void {
    const { shard, payload } = signal;
    this.#order.raiseFloor(TurnsView.floor(payload));
    if (signal.kind !== ResponseKind.Candidate) this.#inTurn.delete(shard);
    else {
      this.#inTurn.set(shard, {
        shard,
        place: TurnsView.place(payload),
        earliest: TurnsView.earliest(payload),
        pri: CandidateView.pri(signal),
        id: CandidateView.id(signal),
      });
    }
  }

  get isOutdated(): boolean {
    return this.#inTurn.size > 0 && this.#order.isOutdated;
  }

  take(): boolean {
    let best: TurnCandidate | undefined;
    let second: TurnCandidate | undefined;
    let earliest = Number.POSITIVE_INFINITY;
    for (const candidate of this.#inTurn.values()) {
      earliest = Math.min(earliest, candidate.earliest);
      if (best === undefined || goesBefore(candidate, best)) {
        second = best;
        best = candidate;
      } else if (second === undefined || goesBefore(candidate, second)) {
        second = candidate;
      }
    }
    if (best === undefined) return false;
    this.#order.endChoice(best.place, earliest);
    const take = this.#host.message(RequestOp.Take);
    const bound = this.#isUnbounded ? NO_BOUND : (second ?? NO_BOUND);
    take.pri = bound.pri;
    take.id = bound.id;
    PlaceView.fill(take, bound.place);
    FloorView.fill(take, this.#order.floor);
    this.#host.post(best.shard, take);
    return true;
  }

  fillWait(message: Request): void {
    FloorView.fill(message, this.#order.floor);
  }

  onRefusal(signal: Signal): Next {
    this.note(signal);
    this.#isUnbounded = this.#order.order === ReserveOrder.WeightedTime;
    return Next.Choose;
  }
}

function goesBefore(a: TurnCandidate, b: TurnCandidate): boolean {
  if (a.place !== b.place) return a.place < b.place;
  return a.pri < b.pri || (a.pri === b.pri && a.id < b.id);
}
