// A reserve over several shards, as a state machine at the acceptor. No job is ever held back for it: a job
// is ready or reserved, nothing in between, so nobody else is told a lie about a job that is merely being
// negotiated.
//
//   Collecting  Every shard concerned runs what is due there and names its best job (a candidate), without
//               taking it, and the soonest deadline among the jobs that the connection holds there.
//   Taking      The shard of the best candidate takes its best job, provided that it is still at least as
//               good as the second best candidate; the reply then comes from that shard. Otherwise it names
//               its new best, and the choice is made anew. Someone else got a job each time this fails, so
//               somebody always gets on.
//   Waiting     No shard had a job. If a reservation is in its margin the answer is DEADLINE_SOON, if the
//               client does not want to wait it is TIMED_OUT. Else the wait gets a number in the connection's
//               claim word, and every shard is told to wait. The shard that gets a job and turns the word to
//               0 gives it to the connection; all others find the word changed and pass their job on to the
//               next in line.
//   Looking     The client does not want to wait: before it is told so, other acceptors look whether the
//               holder of a job has just gone (shard/looks.ts). Then all is collected once more.
//   Rechecking  A shard says that the wait is due (its margin began, or, on the lead shard, the timeout
//               came). All shards run what is due by now, because a job that is ready in the same moment
//               wins; if nobody claimed the wait after that, the acceptor claims it and answers.
//
// The promise: no job that was ready when the reserve arrived, and stayed so, is passed over for a worse one.
// A job that was ready is a candidate of its shard or worse than one, and the job taken is better than all
// candidates. What a shard gets after it was asked came later than the reserve, and may be passed over.

import { assert } from "../base/assert.ts";
import { RequestFlag, RequestOp } from "../message/request.ts";
import { ResponseKind } from "../message/response.ts";
import { DEADLINE_MARGIN_MS } from "../protocol/limits.ts";
import { Reply } from "../protocol/reply.ts";
import type { Conversation, Signal } from "./conversation.ts";
import type { ConversationHost } from "./conversation-host.ts";

const State = { Collecting: 0, Taking: 1, Waiting: 2, Rechecking: 3, Looking: 4 } as const;
type State = (typeof State)[keyof typeof State];

interface Participant {
  readonly shard: number;
  hasCandidate: boolean;
  pri: number;
  id: number;
  soonestMs: number;
}

const NO_ID_BOUND = Number.POSITIVE_INFINITY;
const NO_PRI_BOUND = 0xffffffff;

export class SharedReserve implements Conversation {
  readonly #host: ConversationHost;
  readonly #participants: Participant[];
  readonly #timeoutAtMs: number;
  #state: State = State.Collecting;
  #left = 0;
  #waitNumber = 0;
  #mayWait: boolean;
  #hasLooked: boolean;
  /** RESERVED has come while answers to a recheck were still under way. */
  #answered = false;

  /** `shards` are those with watched tubes or held jobs; `timeoutMs` may be 0 or Infinity. */
  constructor(host: ConversationHost, shards: readonly number[], timeoutMs: number) {
    this.#host = host;
    this.#timeoutAtMs = host.nowMs() + timeoutMs;
    this.#mayWait = timeoutMs > 0;
    this.#hasLooked = !host.hasOtherAcceptors;
    this.#participants = shards.map((shard) => ({
      shard,
      hasCandidate: false,
      pri: 0,
      id: 0,
      soonestMs: Number.POSITIVE_INFINITY,
    }));
    this.#collect();
  }

  onSignal({ shard, kind, value, pri, soonestMs }: Signal): void {
    if (kind === ResponseKind.WaitDue) {
      if (this.#state === State.Waiting && value === this.#waitNumber) this.#recheck();
      return;
    }
    const participant = this.#participants.find((each) => each.shard === shard);
    assert(participant !== undefined, "only shards that were asked answer");
    participant.soonestMs = soonestMs;
    participant.hasCandidate = kind === ResponseKind.Candidate;
    participant.pri = pri;
    participant.id = value;
    if (this.#state === State.Taking) this.#choose();
    else if (--this.#left === 0) {
      if (this.#state === State.Collecting) this.#choose();
      else if (this.#state === State.Looking) this.#collect();
      else this.#endIfDue();
    }
  }

  /** RESERVED has come: from Take, or from the shard that claimed the wait. */
  onReply(shard: number): void {
    if (this.#state === State.Waiting || this.#state === State.Rechecking) {
      for (const other of this.#participants)
        if (other.shard !== shard) this.#tell(other.shard, RequestOp.StopWait);
    }
    // Answers to a recheck still under way must not meet the next command.
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

  #collect(): void {
    this.#state = State.Collecting;
    this.#left = this.#participants.length;
    this.#tellAll(RequestOp.Collect);
  }

  #choose(): void {
    let best: Participant | undefined;
    let second: Participant | undefined;
    for (const participant of this.#participants) {
      if (!participant.hasCandidate) continue;
      if (best === undefined || better(participant, best)) {
        second = best;
        best = participant;
      } else if (second === undefined || better(participant, second)) {
        second = participant;
      }
    }
    if (best === undefined) {
      this.#noJob();
      return;
    }
    this.#state = State.Taking;
    const take = this.#host.message(RequestOp.Take);
    take.pri = second?.pri ?? NO_PRI_BOUND;
    take.id = second?.id ?? NO_ID_BOUND;
    this.#host.post(best.shard, take);
  }

  #noJob(): void {
    if (this.#inMargin()) this.#host.finishConversation(Reply.deadlineSoon);
    else if (!this.#mayWait && !this.#hasLooked) this.#look();
    else if (!this.#mayWait) this.#host.finishConversation(Reply.timedOut);
    else this.#wait();
  }

  #look(): void {
    this.#hasLooked = true;
    this.#state = State.Looking;
    this.#left = this.#participants.length;
    this.#tellAll(RequestOp.LookFirst);
  }

  #wait(): void {
    this.#state = State.Waiting;
    this.#waitNumber = this.#host.openWait();
    let lead = true;
    for (const participant of this.#participants) {
      const wait = this.#host.message(RequestOp.WaitShared);
      wait.flags = lead ? RequestFlag.Lead : 0;
      wait.waitNumber = this.#waitNumber;
      wait.atMs = lead ? this.#timeoutAtMs : Number.POSITIVE_INFINITY;
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
    this.#state = State.Waiting;
    // Lost: a shard has claimed the wait, and its RESERVED is on the way.
    if (!this.#host.claimWait(this.#waitNumber)) return;
    if (this.#inMargin()) this.#finish(Reply.deadlineSoon);
    else if (!this.#mayWait || this.#host.nowMs() >= this.#timeoutAtMs) this.#finish(Reply.timedOut);
    else {
      // The reservation whose margin began is gone by now: wait on.
      this.#stopWaits();
      this.#collect();
    }
  }

  #finish(reply: Uint8Array): void {
    this.#stopWaits();
    this.#host.finishConversation(reply);
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

function better(a: Participant, b: Participant): boolean {
  return a.pri < b.pri || (a.pri === b.pri && a.id < b.id);
}
