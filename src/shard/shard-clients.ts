// The clients of a shard: gives them jobs, handles the engine's events that concern them, and ends
// their sessions.

import { assert } from "../base/assert.ts";
import { asciiBytes, latin1 } from "../base/bytes.ts";
import { ReserveOutcome } from "../engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../engine/jobs/job-table.ts";
import { type Session, Waiting } from "../engine/waiting/session.ts";
import { RequestOp, readRequest, requestOp } from "../message/request.ts";
import { ResponseKind } from "../message/response.ts";
import { Counter } from "../message/topology.ts";
import { WORKER_BYTES_MAX } from "../protocol/job-failure.ts";
import { Reply, ReplyWord } from "../protocol/reply.ts";
import type { Request } from "../protocol/request.ts";
import type { BarrierRounds, CommandShard, ShardCommand } from "./commands/command.ts";
import { reserveMany } from "./commands/reserve-batch.ts";
import { LeaseWorkers } from "./lease-workers.ts";
import { leaseDetails } from "./replies/lease-details.ts";
import type { DeferredMessages } from "./sessions/deferred-messages.ts";
import type { ShardSession } from "./sessions/shard-session.ts";
import { NO_PORT, ShardParts } from "./shard-parts.ts";
import { SessionCleanup } from "./slices/session-cleanup.ts";

export abstract class ShardClients extends ShardParts implements CommandShard {
  readonly #leaseWorkers = new LeaseWorkers(this.engine, this.leaseSession);

  abstract resume(session: ShardSession): void;
  abstract read(session: ShardSession, bytes: number): void;
  /** Executes a message. */
  protected abstract run(session: ShardSession, request: Request): void;

  reserve(session: ShardSession, timeoutMs: number): void {
    assert(session.engineSession.waiting === Waiting.No, "a session that reserves does not wait yet");
    if (session.batch !== undefined) {
      reserveMany(this, session, session.batch, timeoutMs);
      return;
    }
    const slot = this.engine.reserve(session.engineSession, timeoutMs, this.nowMs);
    if (slot >= 0) this.giveJob(session, slot, 0);
    else if (slot === ReserveOutcome.TimedOut) this.replies.fixed(session, Reply.timedOut);
    else if (slot === ReserveOutcome.DeadlineSoon) this.replies.fixed(session, Reply.deadlineSoon);
  }

  /**
   * Starts a read barrier if it may get the session a job. Returns whether it did: see ReadBarrier.
   */
  beginBarrier(session: ShardSession): boolean {
    this.engine.runDue(this.nowMs);
    return (
      this.engine.bestReady(session.engineSession, this.nowMs) === NO_SLOT &&
      this.barrier.beginForJob(session)
    );
  }

  afterReading(session: ShardSession, request: Request, rounds: BarrierRounds, command: ShardCommand): void {
    if (!this.barrier.begin(session, rounds)) {
      command(this, session, request);
      return;
    }
    const kept = request.clone();
    assert(session.afterBarrier === undefined, "one command waits for a barrier");
    session.afterBarrier = () => {
      this.replies.request = kept;
      command(this, session, kept);
    };
  }

  /**
   * Answers RESERVED, or the batch that the session has waited for. A session of the HTTP thread
   * hands the job to the lease session at once and gets the details of the lease.
   */
  giveJob(session: ShardSession, slot: number, flags: number): void {
    assert(slot >= 0, "a given job is on this shard");
    const { batch } = session;
    if (batch !== undefined) {
      session.endBatch();
      this.replies.batch(session, [slot], batch.details);
      return;
    }
    if (session.acceptor !== this.leasePort) {
      this.replies.job(session, ReplyWord.reserved, slot, flags);
      return;
    }
    this.engine.hand(slot, session.engineSession, this.engine.session(this.leaseSession));
    const id = this.engine.jobs.pageOf(slot).id[rowOf(slot)]!;
    this.#leaseWorkers.note(id, this.workerNames[this.leasePort]!.text(session.connectionSlot));
    const details = leaseDetails(this.engine, slot, this.nowMs);
    this.replies.job(session, ReplyWord.reserved, slot, flags, details);
  }

  detach(session: ShardSession, number: number): void {
    assert(
      session.slicedCommand === undefined && session.longReply === undefined,
      "a connection moves with no answer under way",
    );
    assert(
      session.barrier === 0 && session.incoming === undefined,
      "a connection moves with no command under way",
    );
    assert(!session.isRedirected && !session.ended, "a connection moves with its commands answered");
    this.aside.leave(session);
    this.#runUnanswered(session);
    this.engine.detachSession(session.engineSession);
    this.sessions[session.connectionSlot * this.portCount + session.acceptor] = undefined;
    this.replies.signal(session, ResponseKind.Detached);
    this.adoptions.detached(number, session);
  }

  /**
   * Executes the deferred messages of a connection that moves: the end of a wait elsewhere, and
   * its own end. They get no reply.
   */
  #runUnanswered(session: ShardSession): void {
    const { deferred } = session;
    if (deferred === undefined) return;
    while (!deferred.isEmpty) {
      readRequest(deferred, deferred.shift(), this.request);
      const { op } = this.request;
      assert(
        op === RequestOp.WaitShared || op === RequestOp.StopWait,
        "a connection moves with no command under way",
      );
      this.run(session, this.request);
    }
    session.deferred = undefined;
  }

  /**
   * Ends the session of a connection that is gone. Commands that have not begun are dropped. A
   * sliced command in progress is finished first, and then this is called again.
   */
  end(session: ShardSession): void {
    // Due timers concern this client, too: they may end its wait.
    if (!session.ended) this.engine.runDue(this.nowMs);
    session.ended = true;
    this.aside.leave(session);
    if (session.deferred !== undefined) this.#drop(session.deferred);
    session.deferred = undefined;
    session.barrier = 0;
    session.afterBarrier = undefined;
    this.leadWaits.delete(session);
    this.puts.abandon(session);
    this.replies.abandonLong(session);
    this.lists.abandon(session);
    if (session.slicedCommand !== undefined) return;
    const giveBack = new SessionCleanup(this.engine, session);
    if (!this.slicedCommands.takesTurn(giveBack.jobs)) {
      // The cleanup may have to wait for its turn, and a client that is gone must get no job until
      // then.
      this.engine.abandonWait(session.engineSession);
      this.slicedCommands.join(session, giveBack);
      return;
    }
    const index = session.connectionSlot * this.portCount + session.acceptor;
    assert(session.engineSession.index === index, "the engine's session has the same index");
    assert(this.sessions[index] === session, "a session ends in its own slot");
    this.engine.closeSession(session.engineSession, this.nowMs);
    this.sessions[index] = undefined;
    this.replies.signal(session, ResponseKind.Closed);
  }

  /** Drops messages that will not be executed, and frees their bodies. */
  #drop(deferred: DeferredMessages): void {
    while (!deferred.isEmpty) {
      const offset = deferred.shift();
      if (requestOp(deferred, offset) !== RequestOp.PutStored) continue;
      readRequest(deferred, offset, this.request);
      this.puts.dropStored(this.request);
    }
  }

  /** Returns `acceptor.connection`, or "lease" for the session that holds the leases. */
  holderName(session: number): string {
    assert(session >= 0, "the holder of a job is a session");
    if (this.#holdsLeases(session)) return "lease";
    return `${session % this.portCount}.${Math.floor(session / this.portCount)}`;
  }

  #holdsLeases(session: number): boolean {
    return session === this.leaseSession && this.leasePort !== NO_PORT;
  }

  /**
   * Writes the name or address of the worker that holds this job; without either, the same as
   * `holderName`.
   */
  protected workerName(session: number, job: number, into: Uint8Array, at: number): number {
    const slot = Math.floor(session / this.portCount);
    const length = this.workerNames[session % this.portCount]!.read(slot, into, at);
    if (length > 0) return length;
    const leased = this.#holdsLeases(session) ? this.#leaseWorkers.of(job) : "";
    const name = asciiBytes(leased || this.holderName(session));
    assert(at + name.length <= into.length, "the name of a connection fits");
    into.set(name, at);
    return name.length;
  }

  workerText(session: number, job: number): string {
    const name = new Uint8Array(WORKER_BYTES_MAX);
    return latin1(name, 0, this.workerName(session, job, name, 0));
  }

  /** Continues with ending batches, if their records find room. */
  protected endBatches(): void {
    if (this.records?.hasRoom === false) return;
    this.homes.step(this.nowMs);
    if (this.engine.hasFlowWork) this.engine.workOnFlows(this.nowMs);
    this.engine.batches.hasNews = this.homes.hasNews || this.engine.hasFlowWork;
  }

  updateGauges(): void {
    const { counters, engine } = this;
    assert(engine.urgentJobs <= engine.jobCounts[JobState.Ready]!, "urgent jobs are among the ready ones");
    counters[Counter.JobsUrgent] = engine.urgentJobs;
    counters[Counter.JobsReady] = engine.jobCounts[JobState.Ready]!;
    counters[Counter.JobsReserved] =
      engine.jobCounts[JobState.Reserved]! + engine.jobCounts[JobState.Moving]!;
    counters[Counter.JobsDelayed] = engine.jobCounts[JobState.Delayed]!;
    counters[Counter.JobsBuried] = engine.jobCounts[JobState.Buried]!;
    counters[Counter.TotalJobs] = engine.totalJobs;
    counters[Counter.JobTimeouts] = engine.jobTimeouts;
    counters[Counter.Tubes] = engine.tubes.size;
    counters[Counter.Waiting] = this.waiting();
  }

  protected waiting(): number {
    let waiting = this.engine.waitingAlone;
    for (const session of this.leadWaits) if (this.stillWaiting(session.engineSession)) waiting++;
    assert(waiting >= this.engine.waitingAlone, "sessions that wait are counted");
    return waiting;
  }

  #sessionOf(client: Session): ShardSession {
    const session = this.sessions[client.index];
    assert(session !== undefined, "a session of the engine exists here, too");
    assert(session.engineSession === client, "a session belongs to its client");
    return session;
  }

  reserved(client: Session, slot: number): void {
    assert(slot >= 0, "a session that waited gets a job of this shard");
    const session = this.#sessionOf(client);
    assert(!session.ended, "a client that is gone gets no job");
    this.leadWaits.delete(session);
    this.giveJob(session, slot, 0);
    this.resume(session);
  }

  timedOut(client: Session): void {
    assert(client.waiting === Waiting.No, "a wait that timed out is over");
    const session = this.#sessionOf(client);
    session.endBatch();
    this.replies.fixed(session, Reply.timedOut);
    this.resume(session);
  }

  deadlineSoon(client: Session): void {
    assert(client.waiting === Waiting.No, "a wait that a deadline ended is over");
    const session = this.#sessionOf(client);
    session.endBatch();
    this.replies.fixed(session, Reply.deadlineSoon);
    this.resume(session);
  }

  waitDue(client: Session): void {
    const session = this.#sessionOf(client);
    assert(!session.ended, "a client that is gone waits for nothing");
    this.replies.signal(session, ResponseKind.WaitDue, session.waitNumber);
  }

  claim(client: Session): boolean {
    const session = this.#sessionOf(client);
    return this.claims[session.acceptor]!.claim(session.connectionSlot, session.waitNumber);
  }

  stillWaiting(client: Session): boolean {
    const session = this.#sessionOf(client);
    return this.claims[session.acceptor]!.isOpen(session.connectionSlot, session.waitNumber);
  }
}
