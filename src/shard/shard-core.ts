// The core of a shard, as plain code: reads requests from its rings, drives its engine, writes
// replies. It has no thread and no clock.
//
// `step` is one turn: due timers first, then requests from every acceptor in batches. The loop
// around it (shard-loop.ts) publishes and decides when to sleep. A simulation runs the same code.

import { assert, CHECKED } from "../base/assert.ts";
import { JobState } from "../engine/jobs/job-table.ts";
import { Waiting } from "../engine/waiting/session.ts";
import {
  BarrierAckView,
  ControlView,
  isById,
  MigrationView,
  RequestFlag,
  RequestOp,
  readRequest,
  waitsForTransfer,
} from "../message/request.ts";
import { ResponseKind } from "../message/response.ts";
import { Counter } from "../message/topology.ts";
import { Op } from "../protocol/commands.ts";
import type { Request } from "../protocol/request.ts";
import type { MessageSource } from "../ring/message-source.ts";
import { EMPTY } from "../ring/ring-reader.ts";
import { takeCarried } from "./carried-messages.ts";
import { SHARD_COMMANDS, TRAITS, Trait } from "./commands/command-table.ts";
import { CHEAP_WORK_MAX, WORK_PER_MS } from "./run-queue.ts";
import { DeferredMessages } from "./sessions/deferred-messages.ts";
import { ShardSession } from "./sessions/shard-session.ts";
import { ShardClients } from "./shard-clients.ts";
import { AwaitJob } from "./slices/await-job.ts";

/** Messages taken from one acceptor before others get their turn and replies are published. */
const BATCH_MESSAGES = 64;
/** A clock reading takes 40 ns. */
const MESSAGES_PER_CLOCK_READING = 8;
/** Work of expensive commands in one turn, not counting the last of them: half a millisecond. */
const TURN_WORK_MAX = WORK_PER_MS / 2;
/** Time after which a turn takes no more from the rings, so that replies leave. */
const TURN_MS = 1;
/** Sliced commands that end in one turn, if they take little time: most of them only waited. */
const ENDED_MAX = 16;

export class ShardCore extends ShardClients {
  readonly #resuming: ShardSession[] = [];
  readonly #stalled: ShardSession[] = [];
  /** Work of expensive commands in this turn. */
  #turnWork = 0;
  /** Whether the turn was so expensive that replies should leave before the next command. */
  #isLong = false;
  #turnBeganAtMs = 0;
  /** When connections that are set aside had their last turn. */
  #asideAtMs = Number.NEGATIVE_INFINITY;
  /** The acceptor whose ring is read first in this turn. */
  #firstAcceptor = 0;
  /** Whether the last turn put off sliced work because it had commands to execute. */
  #owesSlices = false;

  /** Runs one turn. Returns the number of messages taken. `publish` makes the replies visible. */
  step(nowMs: number): number {
    this.nowMs = nowMs;
    this.#turnWork = 0;
    this.#isLong = false;
    this.#turnBeganAtMs = nowMs;
    this.engine.beginTurn();
    // Parts that rarely have work are checked by a field, so that idle ones cost no call per turn.
    if (this.slicedCommands.isTouched) this.slicedCommands.beginTurn();
    const { batches, schedules } = this.engine;
    if (schedules.unlogged.length > 0) schedules.logRestored();
    this.engine.runDue(nowMs);
    if (schedules.table.size > 0) this.schedules.turns.step(nowMs);
    if (this.#resuming.length > 0) this.#runResumed();
    const taken = this.#takeFromAll();
    if (this.replies.longReady > 0) this.#continueLong();
    if (this.#resuming.length > 0) this.#runResumed();
    if (this.aside.size > 0 && (taken === 0 || this.nowMs - this.#asideAtMs >= TURN_MS)) this.#runAside();
    if (batches.hasNews || batches.timers.nextAtMs <= this.nowMs) this.endBatches();
    // Replies leave before work that can wait. But that work gets every second turn.
    if (taken > 0 && !this.#owesSlices) this.#owesSlices = true;
    else this.#workOn();
    this.#sendJobs();
    if (this.#resuming.length > 0) this.#runResumed();
    this.memory.settle();
    return taken;
  }

  /** Continues long replies, and the sessions whose replies are complete. */
  #continueLong(): void {
    for (let session = this.replies.pumpLong(); session !== undefined; session = this.replies.pumpLong())
      this.resume(session);
  }

  /** Sends jobs that go to other shards. */
  #sendJobs(): void {
    if (this.deadLetters.isUnderWay || this.engine.policies.deaths.someLeave)
      this.deadLetters.step(this.nowMs);
    if (this.transferSender.waiting.length > 0) this.transferSender.step();
  }

  /** Continues work that takes many turns. */
  #workOn(): void {
    this.#owesSlices = false;
    this.readClock();
    if (this.slicedCommands.size === 0) this.slicedCommands.spentMs = 0;
    else if (this.#recordsOpen()) this.#moveOn(this.nowMs);
    if (this.lists.underWay.length > 0) this.lists.pump();
    if (this.control !== undefined) {
      this.readClock();
      this.control.step();
    }
    if (this.engine.queues.untidy.size > 0) this.engine.tidy();
  }

  /**
   * Gives connections with expensive commands their turns, until the shard's turn is long. While
   * commands arrive, that happens once in a while: those behind a pipeline in the ring would wait
   * for an expensive command with each batch of it, and replies would leave after one.
   */
  #runAside(): void {
    while (!this.#isLong && this.#recordsOpen()) {
      const session = this.aside.next();
      if (session === undefined) break;
      this.resume(session);
      this.#runResumed();
    }
    this.readClock();
    this.#asideAtMs = this.nowMs;
  }

  /** Charges a command that may have been expensive to its connection. */
  #charge(session: ShardSession): void {
    const work = this.engine.looks + this.slicedCommands.spentMs * WORK_PER_MS;
    assert(work >= 0, "work is never negative");
    this.slicedCommands.spentMs = 0;
    this.#turnWork += work;
    this.#isLong = this.#turnWork > TURN_WORK_MAX;
    if (work > CHEAP_WORK_MAX && !session.ended) this.aside.setAside(session, work);
  }

  /**
   * Executes a batch of each acceptor until the turn is long. The next turn begins after the last
   * acceptor, so that each gets its turn. Returns the number of messages taken.
   */
  #takeFromAll(): number {
    const first = this.#firstAcceptor;
    let taken = 0;
    for (let turn = 0; turn < this.portCount && !this.#isLong; turn++) {
      const acceptor = (first + turn) % this.portCount;
      taken += this.#takeFrom(acceptor);
      if (!this.#isLong && this.nowMs - this.#turnBeganAtMs <= TURN_MS) continue;
      this.#firstAcceptor = (acceptor + 1) % this.portCount;
      break;
    }
    return taken;
  }

  /** Executes up to a batch of messages, as long as replies find room. Returns how many. */
  #takeFrom(acceptor: number): number {
    const port = this.ports[acceptor]!;
    if (port.blocked) port.drainOverflow();
    const ring = this.requests[acceptor]!;
    let taken = 0;
    while (taken < BATCH_MESSAGES && this.#mayTake(acceptor) && this.#recordsOpen() && !this.#isLong) {
      if (taken > 0 && taken % MESSAGES_PER_CLOCK_READING === 0) {
        this.readClock();
        if (this.nowMs - this.#turnBeganAtMs > TURN_MS) break;
      }
      const offset = ring.next();
      if (offset === EMPTY) break;
      if (taken++ === 0) this.readClock();
      this.#receive(ring, offset, acceptor);
      if (this.#resuming.length > 0) this.#runResumed();
    }
    assert(taken <= BATCH_MESSAGES, "a ring gets at most one batch");
    this.counters[Counter.Crossed]! += Number(!port.isLocal) * taken;
    return taken;
  }

  /** Returns whether the messages of an acceptor may be executed. */
  #mayTake(acceptor: number): boolean {
    const { adoptions } = this;
    return this.ports[acceptor]!.open && !(adoptions.waitingCount > 0 && adoptions.isWaiting(acceptor));
  }

  /** Reads the clock: in a turn that is held up, delays and TTRs would otherwise end too early. */
  readClock(): void {
    this.nowMs = Math.max(this.nowMs, this.clock());
  }

  #moveOn(nowMs: number): void {
    for (let left = ENDED_MAX; left > 0 && this.slicedCommands.spentMs < TURN_MS / 8; left--) {
      const session = this.slicedCommands.step(this.#mayAnswer, nowMs);
      if (session === undefined) break;
      if (session.ended) this.end(session);
      else this.resume(session);
    }
    this.slicedCommands.spentMs = 0;
  }

  readonly #mayAnswer = (session: ShardSession): boolean => this.ports[session.acceptor]!.open;

  /** Whether the records of one more command are likely to find room, so that it need not wait. */
  #recordsOpen(): boolean {
    return this.records === undefined || this.records.hasRoom;
  }

  /** Whether the shard has work now, apart from timers. */
  get hasWork(): boolean {
    if (!this.#recordsOpen()) return false;
    for (let acceptor = 0; acceptor < this.portCount; acceptor++) {
      const port = this.ports[acceptor]!;
      if (
        port.blocked
          ? port.ring.hasRoom(port.ring.messageBytesMax)
          : this.requests[acceptor]!.hasMessage && this.#mayTake(acceptor)
      ) {
        return true;
      }
    }
    return (
      this.#resuming.some(this.#mayAnswer) ||
      (this.slicedCommands.size > 0 && this.slicedCommands.hasWork(this.#mayAnswer)) ||
      ((this.deadLetters.isUnderWay || this.engine.policies.deaths.someLeave) && this.deadLetters.hasWork) ||
      (this.engine.batches.hasNews && (this.homes.hasWork || this.engine.hasFlowWork)) ||
      (this.transferSender.waiting.length > 0 && this.transferSender.hasWork) ||
      this.control?.hasWork === true ||
      (this.replies.longReady > 0 && this.replies.longHasWork) ||
      (this.lists.underWay.length > 0 && this.lists.hasWork) ||
      this.aside.size > 0 ||
      this.engine.queues.untidy.size > 0
    );
  }

  /** Whether commands have arrived that can be executed now. */
  get hasCommands(): boolean {
    for (let acceptor = 0; acceptor < this.portCount; acceptor++)
      if (this.requests[acceptor]!.hasMessage && this.#mayTake(acceptor)) return this.#recordsOpen();
    return false;
  }

  /** Asks the acceptors and the log to ring when they have made room that work waits for. */
  wantRoom(): void {
    this.records?.wantRoom();
    for (const port of this.ports) if (!port.open) port.ring.wantRoom();
    this.replies.wantRoomForLong();
    this.lists.wantRoom();
    this.control?.wantRoom();
  }

  // --- requests ----------------------------------------------------------------------------------

  #beginSession(acceptor: number, connectionSlot: number): ShardSession {
    assert(acceptor < this.portCount, "a session's port is one of the shard's");
    const index = connectionSlot * this.portCount + acceptor;
    assert(this.sessions[index] === undefined, "a slot has one session");
    const session = new ShardSession(this.engine.session(index), acceptor, connectionSlot);
    this.sessions[index] = session;
    return session;
  }

  #receive(source: MessageSource, offset: number, acceptor: number): void {
    const request = this.request;
    readRequest(source, offset, request);
    const { op, flags, slot } = request;
    if (TRAITS[op]! !== 0 && this.#takeSpecial(request, acceptor)) return;
    const session = this.sessions[slot * this.portCount + acceptor] ?? this.#beginSession(acceptor, slot);
    if (session.isRedirected && (op === RequestOp.Locate || (flags & RequestFlag.Probe) !== 0)) {
      // The acceptor has returned to this shard with the redirected command.
      session.beginReplies(0);
      this.#execute(session, request);
      return;
    }
    const busy = session.deferred !== undefined || this.#isAnswering(session);
    if ((flags & RequestFlag.Metered) !== 0) {
      if ((flags & RequestFlag.First) !== 0) session.beginReplies(request.meterBytes);
      else this.read(session, request.meterBytes);
    } else if (!busy) {
      // Part of a conversation or of a put in pieces: nothing else is in flight.
      session.beginReplies(0);
    }
    if (!busy && !session.isAside && !session.owesReading) {
      this.#execute(session, request);
      return;
    }
    session.deferred ??= new DeferredMessages();
    session.deferred.push(source, offset);
  }

  /** Takes a message with a trait. Returns false if it waits its turn, as others do. */
  #takeSpecial(request: Request, acceptor: number): boolean {
    const { op, flags, slot } = request;
    const traits = TRAITS[op]!;
    if (traits === Trait.Connectionless) {
      this.#takeConnectionless(request, acceptor);
      return true;
    }
    const session = this.sessions[slot * this.portCount + acceptor];
    // An orderly end may come before the session's last Credit or the news that the client is gone.
    if (session === undefined && (traits & Trait.MayBeLate) !== 0) return true;
    // An orderly Close waits. A part of a set-tube of all shards does not: if its client left
    // meanwhile, this shard would drop it, while others have already executed it.
    const isPart = (flags & RequestFlag.AckOnly) !== 0;
    if (op === Op.SetTube ? !isPart : (flags & RequestFlag.Orderly) !== 0) return false;
    this.#execute(session ?? this.#beginSession(acceptor, slot), request);
    return true;
  }

  /** Handles a message that belongs to no connection. */
  #takeConnectionless(request: Request, acceptor: number): void {
    const { op, slot } = request;
    if (op === RequestOp.BarrierAck) this.#passBarrier(BarrierAckView.barrier(request));
    else if (op === RequestOp.Adopt) this.adoptions.adopt(MigrationView.move(request), acceptor, slot);
    else if (op === RequestOp.Carried) {
      this.readClock();
      takeCarried(this, request);
    } else {
      assert(op === RequestOp.Control, "every message without a connection has a branch here");
      const { bytes, start, end } = request.body;
      assert(this.control !== undefined, "only an http thread sends Control");
      this.control.take(ControlView.question(request), bytes.subarray(start, end));
    }
  }

  /** Notes what the client has read of its replies, so that its next commands may run. */
  read(session: ShardSession, bytes: number): void {
    session.read(bytes);
    if (!this.#mustWait(session)) this.resume(session);
  }

  /** Runs deferred messages of sessions whose command has ended, until they wait again. */
  #runResumed(): void {
    for (let session = this.#resuming.pop(); session !== undefined; session = this.#resuming.pop()) {
      assert(session.resuming, "a resumed session was queued");
      session.resuming = false;
      const port = this.ports[session.acceptor]!;
      const { deferred } = session;
      if (deferred === undefined) continue;
      // Without room for a reply, the rest stays deferred until the next turn. In a long turn, it
      // joins the run queue: many sessions resumed at once must not take turns from the rings.
      while (!deferred.isEmpty && !this.#mustWait(session) && port.open && !this.#isLong) {
        readRequest(deferred, deferred.shift(), this.request);
        this.#execute(session, this.request);
      }
      if (deferred.isEmpty) session.deferred = undefined;
      else if (!this.#mustWait(session)) {
        if (port.open) this.aside.setAside(session, 1);
        else this.#stalled.push(session);
      }
    }
    while (this.#stalled.length > 0) this.resume(this.#stalled.pop()!);
  }

  /** Returns whether the deferred messages wait for something other than room in a ring. */
  #mustWait(session: ShardSession): boolean {
    if (session.isAside || this.#isAnswering(session)) return true;
    // A Close has no reply to read, and the next command reports what was read of the last reply.
    return session.owesReading && session.deferred?.firstOp !== RequestOp.Close;
  }

  /** Returns whether the session is executing a command, so that later ones have to wait. */
  #isAnswering(session: ShardSession): boolean {
    return (
      session.engineSession.waiting === Waiting.Alone ||
      session.longReply !== undefined ||
      session.slicedCommand !== undefined ||
      session.isRedirected ||
      session.barrier !== 0
    );
  }

  resume(session: ShardSession): void {
    if (session.resuming || session.deferred === undefined) return;
    session.resuming = true;
    this.#resuming.push(session);
  }

  // put 5/10
  #execute(session: ShardSession, request: Request): void {
    const { counted } = request;
    if (counted !== 0) {
      const counter = Counter.Commands + counted;
      if (CHECKED) assert(counter < Counter.CommandTimes, "a counted command has a counter");
      this.counters[counter] = this.counters[counter]! + 1;
    }
    if (this.records !== undefined) this.replies.recordsBefore = this.records.lastNumber;
    this.engine.looks = this.commandWork;
    if (this.engine.jobCounts[JobState.Moving]! > 0 && isById(request) && this.engine.isMoving(request.id))
      this.#runForMovingJob(session, request);
    else this.run(session, request);
    if (this.engine.looks > CHEAP_WORK_MAX || this.slicedCommands.spentMs > 0) this.#charge(session);
  }

  /**
   * Executes a command by id whose job is in transfer. The news of its arrival may be late, as with
   * a full disk: this answer must not contradict what a client has done there since.
   */
  #runForMovingJob(session: ShardSession, request: Request): void {
    assert(request.id > 0, "a job in transit has an id");
    if (this.replies.isElsewhere(request.id)) this.replies.elsewhere(session, request, request.flags);
    else if (waitsForTransfer(request)) {
      const kept = request.clone();
      const moving = (): number | undefined => (this.engine.isMoving(kept.id) ? kept.id : undefined);
      this.slicedCommands.join(session, new AwaitJob(moving, () => this.run(session, kept)));
    } else this.run(session, request);
  }

  protected run(session: ShardSession, request: Request): void {
    this.replies.request = request;
    SHARD_COMMANDS[request.op]!(this, session, request);
  }

  /** Continues a command once all acceptors have acknowledged its barrier. */
  #passBarrier(number: number): void {
    assert(number > 0, "a barrier has a number");
    const session = this.barrier.acknowledged(number);
    if (session === undefined) return;
    assert(!session.ended, "a client that is gone waits for no barrier");
    if (this.records !== undefined) this.replies.recordsBefore = this.records.lastNumber;
    this.engine.looks = this.commandWork;
    if (session.barrierForAcceptor) {
      session.barrierForAcceptor = false;
      this.replies.signal(session, ResponseKind.Ack);
    } else if (session.afterBarrier !== undefined) {
      const { afterBarrier } = session;
      session.afterBarrier = undefined;
      afterBarrier();
    } else this.reserve(session, 0);
    this.#charge(session);
    this.resume(session);
  }
}
