// The tubes and sessions of one shard: put, reserve, delete and beanstalkd's other commands, and
// what happens as time passes.
//
// README.md describes the life of a job. First comes what is due, then the commands, then how ready
// jobs get to sessions and come back, and last the sessions and tubes themselves.

import { assert, CHECKED } from "../base/assert.ts";
import { OnDuplicate } from "../protocol/option-rows.ts";
import { ReserveOrder, type Span } from "../protocol/request.ts";
import { JobCounter } from "../schema/job.ts";
import type { SettingValues } from "../schema/setting.ts";
import { ENDS, type End, Outcome } from "./jobs/ends.ts";
import { betterJob, JobState, type JobTable, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import type { JobAttributes, JobFacts, NewJob, RestoredJob } from "./jobs/new-job.ts";
import { NOBODY } from "./policies/failures.ts";
import type { JobStore } from "./policies/job-store.ts";
import { NO_ROW } from "./policies/key-table.ts";
import { Policies, PutVerdict, spanOf } from "./policies/policies.ts";
import { BestHeap } from "./queues/heaps.ts";
import type { JobGroups } from "./queues/job-groups.ts";
import { WAITS_UNTIL_MS } from "./state/batch-table.ts";
import type { Meter } from "./state/effects.ts";
import { ReadyOrder } from "./state/ready-order.ts";
import { inMargin, isOver, Session, Waiting, type Watch } from "./state/session.ts";
import { type EngineOptions, ShardState } from "./state/shard-state.ts";
import { TubeTurns } from "./state/tube-turns.ts";
import type { TubeWaiters } from "./state/waiters.ts";
import type { Tube } from "./tubes/tube.ts";
import { SettingChange } from "./tubes/tube-table.ts";

/** Result of a reserve that returns no job; a job's slot is 0 or more. */
export const ReserveOutcome = { Waits: -1, TimedOut: -2, DeadlineSoon: -3 } as const;

/**
 * With this many times the tubes that a session keeps in an order, it is prepared in steps. To look
 * at 2048 tubes takes a millisecond.
 */
const AT_ONCE = 32;

/** Cost of comparing the turn of a tube, in looks at tubes. */
export const TURN_LOOKS = 4;

/** Outcomes of a put by PutVerdict. */
const OUTCOME_OF: Readonly<Record<number, Outcome>> = {
  [PutVerdict.Duplicate]: Outcome.Duplicate,
  [PutVerdict.TubeFull]: Outcome.TubeFull,
  [PutVerdict.NoRoom]: Outcome.NoRoom,
  [PutVerdict.NoBatch]: Outcome.NoBatch,
  [PutVerdict.BatchCommitted]: Outcome.BatchCommitted,
  [PutVerdict.BatchOrder]: Outcome.BatchOrder,
};

/** Maximum number of groups that one slice of cleaning forgets. */
const TIDIED_GROUPS_MAX = 500;

// Tubes whose pauses end at the same moment, the one with the best ready job first.

/** Each member has a ready job, and only the first may lose it. */
export class ResumedTubes extends BestHeap<Tube> {
  constructor(jobs: JobTable) {
    super((a, b) => betterJob(jobs, a.ready.top, b.ready.top));
  }

  /** Updates the heap after the first tube has given its best job. It may have no other. */
  firstServed(): void {
    const tube = this.first;
    assert(tube !== undefined, "the tube that was served is in the heap");
    if (!tube.open || tube.ready.top === NO_SLOT) this.pop();
    else this.firstChanged();
  }
}

export class QueueCore extends ShardState {
  readonly policies: Policies;
  readonly store: JobStore;
  /** Number of jobs by JobState, over all tubes. */
  readonly jobCounts: Int32Array = this.queues.counts;

  constructor(options: EngineOptions) {
    super(options);
    this.policies = new Policies(this, options.keySeed ?? [0, 0], options.workerName ?? (() => 0));
    this.store = this.policies.store;
  }

  // --- what is due -------------------------------------------------------------------------------

  /** When `runDue` next has something to do, or Infinity. */
  get nextDueAtMs(): number {
    return Math.min(
      this.queues.delayTimers.nextAtMs,
      this.sessionTimers.heap.nextAtMs,
      this.rareDeadlines.nextAtMs,
    );
  }

  /** Begins a turn and renews its allowance of due events. */
  beginTurn(): void {
    assert(this.dueLeft >= 0, "a turn runs no more than its allowance");
    this.dueLeft = this.turnDueMax;
  }

  /**
   * Runs everything that is due: first expiring jobs and keys to forget, then, in the C server's
   * order, delayed jobs, ending pauses and sessions.
   *
   * If more is due than one turn allows, the following turns run the rest, and nothing later
   * happens before it. Clients meanwhile see a slightly older state, as if the clock were slow.
   * `nextDueAtMs` stays in the past until then, so that the shard does not sleep.
   */
  runDue(nowMs: number): void {
    if (this.nextDueAtMs <= nowMs) this.#runAllDue(nowMs);
  }

  /**
   * Runs everything that is due. It is separate, so that V8 inlines `runDue`, which every command
   * calls.
   */
  #runAllDue(nowMs: number): void {
    if (this.policies.nextAtMs <= nowMs) this.expiryBehindAtMs = nowMs;
    while (this.policies.nextAtMs <= nowMs) {
      if (!this.#mayRunDue()) return;
      const tube = this.policies.runOne(nowMs);
      if (tube === undefined) continue;
      this.#serve(tube, nowMs);
      this.dropIfUnused(tube);
    }
    this.expiryBehindAtMs = 0;
    while (this.queues.delayTimers.nextAtMs <= nowMs) {
      if (!this.#mayRunDue()) return;
      const slot = this.queues.nextDelayed;
      assert(slot !== NO_SLOT, "a timer that is due has a delayed job");
      const tube = this.tubeOf(slot);
      this.queues.leave(slot);
      this.queues.becomeReady(slot, tube, nowMs);
      this.#serve(tube, nowMs);
    }
    if (this.pauseTimers.nextAtMs <= nowMs) this.#endPauses(nowMs);
    if (this.rateTimers.nextAtMs <= nowMs) this.#serveRefilled(nowMs);
    this.#forgetFullLimiters(nowMs);
    while (this.sessionTimers.heap.nextAtMs <= nowMs) {
      if (!this.#mayRunDue()) return;
      const session = this.sessionTimers.heap.first;
      assert(session !== undefined, "a timer that is due has a session");
      assert(this.sessions[session.index] === session, "a timer that is due has a session in its place");
      this.#sessionDue(session, nowMs);
    }
  }

  /** Runs due timers, since a newly ready job may have expired; then serves the tube. */
  runDueAndServe(tube: Tube, nowMs: number): void {
    tube.using++;
    this.runDue(nowMs);
    assert(tube.using > 0, "a tube in use is not deleted");
    tube.using--;
    this.#serve(tube, nowMs);
  }

  #mayRunDue(): boolean {
    if (this.dueLeft === 0) return false;
    this.dueLeft--;
    return true;
  }

  /** Serves all tubes that resume now, best job first: a client of several gets the best one. */
  #endPauses(nowMs: number): void {
    const resumed = new ResumedTubes(this.jobs);
    const filling: Tube[] = [];
    while (this.pauseTimers.nextAtMs <= nowMs && this.#mayRunDue()) {
      const tube = this.pauseTimers.first;
      assert(tube !== undefined, "a timer that is due has a tube");
      assert(tube.paused, "only a pause that has begun ends");
      this.pauseTimers.set(tube.pauseTimer, Number.POSITIVE_INFINITY);
      tube.pauseSeconds = 0;
      this.#setOpen(tube, nowMs);
      if (tube.open && tube.ready.top !== NO_SLOT && this.waiters.longest(tube) !== undefined)
        resumed.push(tube);
      if (this.waiters.fills > 0) filling.push(tube);
    }
    for (let tube = resumed.first; tube !== undefined; tube = resumed.first) {
      if (this.#serveOne(tube, nowMs)) resumed.firstServed();
      else resumed.pop();
    }
    for (const tube of filling) this.#serveFills(tube, nowMs);
  }

  /** Serves tubes whose rate limiters or groups have tokens again. */
  #serveRefilled(nowMs: number): void {
    while (this.rateTimers.nextAtMs <= nowMs && this.#mayRunDue()) {
      const tube = this.rateTimers.first;
      assert(tube !== undefined, "a timer that is due has a tube");
      assert(tube.limiter !== undefined, "a timer of tokens has a rate limiter");
      this.#serve(tube, nowMs);
    }
  }

  #forgetFullLimiters(nowMs: number): void {
    const { retiredLimiters, retiredBuckets } = this.tubes;
    while (retiredLimiters.nextAtMs <= nowMs && this.#mayRunDue()) retiredLimiters.forgetNext();
    while (retiredBuckets.nextAtMs <= nowMs && this.#mayRunDue()) retiredBuckets.forgetNext();
  }

  #sessionDue(session: Session, nowMs: number): void {
    const warns = inMargin(session, nowMs);
    for (let slot = session.held.top; slot !== NO_SLOT; slot = session.held.top) {
      if (!isOver(this.jobs.pageOf(slot).deadlineAtMs[rowOf(slot)]!, nowMs)) break;
      if (!this.#mayRunDue()) {
        // The next turn returns to this session, which is still in its margin then.
        this.sessionTimers.set(session);
        return;
      }
      this.#timeOut(slot, session, nowMs);
    }
    const waitEnds = warns || session.timeoutAtMs <= nowMs;
    if (waitEnds && session.waiting === Waiting.Alone) {
      this.waiters.end(session);
      if (warns) this.effects.deadlineSoon(session);
      else this.effects.timedOut(session);
    } else if (waitEnds && session.waiting === Waiting.Shared) {
      this.#tell(session);
      return;
    }
    this.sessionTimers.set(session);
  }

  /** Ends a reservation whose TTR is over; the caller sets the session's timer. */
  #timeOut(slot: number, session: Session, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(page.state[row] === JobState.Reserved, "only a reservation times out");
    assert(page.holder[row] === session.index, "a reservation times out for its holder");
    page.addTo(row, JobCounter.timeouts);
    this.jobTimeouts++;
    this.tubeOf(slot).timeouts++;
    this.#takeBack(slot, session, ENDS.TimedOut, nowMs);
  }

  // --- put ---------------------------------------------------------------------------------------

  /**
   * Stores a job whose body is in the arena, and serves a client that waits for it. The job goes to
   * the tube of this name, which is created if necessary, or for "" to the one that the session
   * uses. Throws RangeError when memory is exhausted, before anything has changed. In that case,
   * and with NoRoom, the caller still owns the body.
   */
  // put 8/18
  put(
    session: Session,
    job: NewJob,
    body: number,
    nowMs: number,
    tubeName = "",
    attributes?: JobAttributes,
  ): Outcome {
    this.runDue(nowMs);
    if (tubeName !== "") return this.#putInNamed(tubeName, job, body, nowMs, attributes);
    assert(session.used !== undefined, "a put for the tube in use goes to its shard");
    return this.#put(session.used, job, body, nowMs, attributes);
  }

  /**
   * Returns NoRoom for a put whose body memory has no room for, or Duplicate if its key is taken
   * and it needs no room: `putAgain` continues it then, without a body.
   */
  putWithoutRoom(
    session: Session,
    job: NewJob,
    nowMs: number,
    tubeName: string,
    asked: JobAttributes,
  ): Outcome {
    this.runDue(nowMs);
    if (!asked.hasKey || asked.onDuplicate === OnDuplicate.Replace) return Outcome.NoRoom;
    const tube = tubeName === "" ? session.used : this.tubes.open(tubeName);
    assert(tube !== undefined, "a put for the tube in use goes to its shard");
    try {
      const isTaken = this.policies.keys.rowFor(tube, asked) !== NO_ROW;
      return isTaken ? this.#judge(tube, job, asked) : Outcome.NoRoom;
    } finally {
      if (tubeName !== "") this.dropIfUnused(tube);
    }
  }

  /** Does the same as `put` for a job that does not come from a client. */
  putScheduled(
    tubeName: string,
    job: NewJob,
    body: number,
    nowMs: number,
    attributes: JobAttributes | undefined,
  ): Outcome {
    this.runDue(nowMs);
    return this.#putInNamed(tubeName, job, body, nowMs, attributes);
  }

  #putInNamed(
    tubeName: string,
    job: NewJob,
    body: number,
    nowMs: number,
    attributes: JobAttributes | undefined,
  ): Outcome {
    const tube = this.tubes.open(tubeName);
    try {
      return this.#put(tube, job, body, nowMs, attributes);
    } finally {
      // Without the job, the tube may be unused.
      this.dropIfUnused(tube);
    }
  }

  #put(tube: Tube, job: NewJob, body: number, nowMs: number, attributes: JobAttributes | undefined): Outcome {
    let delayMs = job.delaySeconds * 1000 + job.delayMillis;
    const isPlain = attributes === undefined && tube.policy === undefined;
    const refusal = isPlain ? Outcome.Done : this.#judge(tube, job, attributes);
    if (refusal !== Outcome.Done) return refusal;
    if (this.records?.roomForPut() === false) return Outcome.NoRoom;
    if (attributes?.after) delayMs = WAITS_UNTIL_MS;
    (delayMs > 0 ? tube.delayed : tube.ready).makeRoom();
    const slot = this.#insert(tube, job, body);
    if (!isPlain) this.#beginPolicies(slot, tube, job, attributes, nowMs);
    // `nowMs` is when this turn began. If that was before the put arrived, the delay must not start
    // earlier than the put.
    if (attributes?.lost !== undefined) this.beginLost(slot, tube, attributes.lost, nowMs);
    else if (delayMs > 0) this.queues.becomeDelayed(slot, tube, Math.max(nowMs, job.atMs) + delayMs);
    else this.queues.becomeReady(slot, tube, nowMs);
    if (this.records?.put(slot) === false) return this.#undoPut(slot, tube, attributes);
    if (attributes !== undefined) this.store.weighGroup(slot, tube);
    tube.totalJobs++;
    this.totalJobs++;
    this.meter?.stored(job.bodyBytes);
    // Without a waiter, only a rate limiter has to know.
    if (delayMs === 0 && (this.waiters.size > 0 || tube.limiter !== undefined)) this.#serve(tube, nowMs);
    return Outcome.Done;
  }

  /** Buries a job that is in no queue, because the batch that it would wait for has failed. */
  beginLost(slot: number, tube: Tube, reason: Uint8Array, nowMs: number): void {
    this.policies.failures.add(slot, ENDS.Buried.failure, NOBODY, nowMs, spanOf(reason));
    this.countBury(slot, tube);
    this.queues.becomeBuried(slot, tube, nowMs);
  }

  /** Returns Done if the put is accepted, otherwise the reason for its refusal. */
  #judge(tube: Tube, job: NewJob, attributes: JobAttributes | undefined): Outcome {
    const verdict = this.policies.judge(tube, job.bodyBytes, attributes);
    if (verdict === PutVerdict.Welcome) return Outcome.Done;
    const outcome = OUTCOME_OF[verdict];
    assert(outcome !== undefined, "each refusal has its outcome");
    return outcome;
  }

  #undoPut(slot: number, tube: Tube, attributes: JobAttributes | undefined): Outcome {
    if (attributes?.lost !== undefined) this.countBury(slot, tube, -1);
    this.queues.leave(slot);
    this.store.remove(slot, tube);
    return Outcome.NoRoom;
  }

  /** Creates the extras of a new job; if memory runs out, removes the job. */
  #beginPolicies(
    slot: number,
    tube: Tube,
    job: NewJob,
    attributes: JobAttributes | undefined,
    nowMs: number,
  ): void {
    try {
      this.store.begin(slot, tube, attributes, Math.max(nowMs, job.atMs));
    } catch (error) {
      this.store.remove(slot, tube);
      throw error;
    }
  }

  /** Creates a row. Throws RangeError when memory is exhausted, before anything has changed. */
  #insert(tube: Tube, job: JobFacts, body: number): number {
    const { id } = job;
    assert(id > 0, "a job has an id");
    if (CHECKED) assert(this.index.get(id) === NO_SLOT, "an id names one job");
    this.index.makeRoom(id);
    const slot = this.jobs.allocate();
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    page.id[row] = id;
    page.createdAtMs[row] = job.atMs;
    page.pri[row] = job.pri;
    page.delaySeconds[row] = job.delaySeconds;
    page.ttrSeconds[row] = job.ttrSeconds;
    page.setCounters(row);
    page.tube[row] = tube.index;
    page.body[row] = body;
    page.bodyBytes[row] = job.bodyBytes;
    page.file[row] = 0;
    tube.bytes += job.bodyBytes;
    this.index.set(id, slot);
    return slot;
  }

  /** Creates a row for a job that existed elsewhere, with its counters. */
  insertKnown(tube: Tube, job: RestoredJob, body: number): number {
    const slot = this.#insert(tube, job, body);
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    page.setCounters(row, job.counters);
    page.file[row] = job.file;
    return slot;
  }

  /** Restores a job from the log without serving clients; buried jobs in the order of burial. */
  restore(job: RestoredJob, body: number, attributes?: JobAttributes): void {
    assert(job.state !== JobState.Reserved && job.state !== JobState.Moving, "the log has no reserved job");
    const tube = this.tubes.open(job.tube);
    const slot = this.insertKnown(tube, job, body);
    if (attributes !== undefined) this.store.restore(slot, tube, attributes);
    const isBuried = job.state === JobState.Buried || (attributes !== undefined && this.#forgetWait(slot));
    if (isBuried) this.queues.becomeBuried(slot, tube, job.deadlineAtMs);
    else if (job.state === JobState.Delayed) this.queues.becomeDelayed(slot, tube, job.deadlineAtMs);
    else this.queues.becomeReady(slot, tube, job.deadlineAtMs);
  }

  /** Ends the wait for a batch that the log doesn't contain; returns whether there was one. */
  #forgetWait(slot: number): boolean {
    const flows = this.jobs.pageOf(slot).extras?.flows;
    const row = rowOf(slot);
    if (flows === undefined || flows.after[row] === 0 || this.batches.awaitedBy(slot) !== undefined)
      return false;
    flows.after[row] = 0;
    return true;
  }

  /** Completes the restore after all jobs of the log are back. */
  endRestore(): void {
    assert(this.queues.counts[JobState.Reserved] === 0, "no job is reserved while the log is read");
    for (const tube of this.queues.readyTubes) tube.ready.sortOrder();
    this.policies.keys.endRestore();
  }

  // --- delete ------------------------------------------------------------------------------------

  delete(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.index.get(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const isHeld = page.state[row] === JobState.Reserved;
    if (isHeld) {
      if (page.holder[row] !== session.index) return Outcome.NotFound;
      this.#endHolding(slot, session, nowMs);
    } else if (page.state[row] === JobState.Moving) return Outcome.NotFound;
    else this.queues.leave(slot);
    this.#remove(slot, isHeld ? ENDS.Done : ENDS.Deleted, isHeld ? session.index : NOBODY, nowMs);
    return Outcome.Done;
  }

  /** Deletes a job in any state, whichever session holds it. */
  discard(slot: number, end: End, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const holder = page.state[row] === JobState.Reserved ? page.holder[row]! : NOBODY;
    this.leave(slot, nowMs);
    this.#remove(slot, end, holder, nowMs);
  }

  /**
   * Removes a job that has left its queue, and its tube if that is unused. `holder` is the session
   * that held it, or NOBODY.
   */
  #remove(slot: number, end: End, holder: number, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const tube = this.tubeOf(slot);
    if (tube.keepFinished > 0) this.policies.finished.add(slot, end.finished, holder, nowMs);
    if (page.extras === undefined) this.records?.deleted(page.id[rowOf(slot)]!);
    else this.policies.recordEnd(slot, end, nowMs);
    tube.deletes++;
    this.jobDeletes++;
    this.store.end(slot, tube);
    this.serveIfLimited(tube, nowMs);
    this.dropIfUnused(tube);
  }

  /**
   * Cancels a job, whoever holds it: one that waits is removed at once, one that a session holds is
   * Marked. Throws RangeError when memory is exhausted, before anything has changed.
   */
  cancel(id: number, reason: Uint8Array, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const state = this.jobs.pageOf(slot).state[rowOf(slot)];
    if (state === JobState.Moving) return Outcome.NotFound;
    const tube = this.tubeOf(slot);
    if (state === JobState.Reserved) {
      this.policies.markCancelled(slot, tube, reason);
      return Outcome.Marked;
    }
    this.queues.leave(slot);
    this.policies.endCancelled(slot, tube, NOBODY, nowMs, reason);
    this.serveIfLimited(tube, nowMs);
    this.dropIfUnused(tube);
    return Outcome.Done;
  }

  // --- release and bury --------------------------------------------------------------------------

  /** Releases a held job. Only a release with a reason counts as a failure. */
  release(
    session: Session,
    id: number,
    pri: number,
    delaySeconds: number,
    nowMs: number,
    reason?: Span,
  ): Outcome {
    const slot = this.#takeFromHolder(session, id, pri, nowMs);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const end = reason !== undefined && reason.length > 0 ? ENDS.ReleasedWithReason : ENDS.Released;
    if (end.failure !== undefined)
      this.policies.failures.add(slot, end.failure, session.index, nowMs, reason);
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const tube = this.tubeOf(slot);
    tube.releases++;
    this.jobReleases++;
    page.delaySeconds[row] = delaySeconds;
    page.addTo(row, JobCounter.releases);
    if (this.policies.applyTo(slot, tube)) {
      this.#endReservation(slot, tube, end, delaySeconds * 1000, nowMs);
      return Outcome.Done;
    }
    if (delaySeconds > 0) this.queues.becomeDelayed(slot, tube, nowMs + delaySeconds * 1000);
    else this.queues.becomeReady(slot, tube, nowMs);
    this.records?.updated(slot);
    if (delaySeconds === 0) this.#serve(tube, nowMs);
    return Outcome.Done;
  }

  bury(session: Session, id: number, pri: number, nowMs: number, reason?: Span): Outcome {
    const slot = this.#takeFromHolder(session, id, pri, nowMs);
    if (slot === NO_SLOT) return Outcome.NotFound;
    this.policies.failures.add(slot, ENDS.Buried.failure, session.index, nowMs, reason);
    const tube = this.tubeOf(slot);
    this.countBury(slot, tube);
    if (this.policies.isCancelled(slot)) {
      this.#endReservation(slot, tube, ENDS.Buried, 0, nowMs);
      return Outcome.Done;
    }
    this.queues.becomeBuried(slot, tube, nowMs);
    this.records?.updated(slot);
    this.serveIfLimited(tube, nowMs);
    return Outcome.Done;
  }

  /**
   * Takes a job from the session that holds it and sets its priority: the first step of a release
   * and a bury. Returns its slot, or NO_SLOT if the session doesn't hold it.
   */
  #takeFromHolder(session: Session, id: number, pri: number, nowMs: number): number {
    this.runDue(nowMs);
    const slot = this.heldBy(session, id);
    if (slot === NO_SLOT) return NO_SLOT;
    this.#endHolding(slot, session, nowMs);
    this.jobs.pageOf(slot).pri[rowOf(slot)] = pri;
    return slot;
  }

  /** Ends a reservation, because its holder does so. */
  #endHolding(slot: number, session: Session, nowMs: number): void {
    if (CHECKED)
      assert(
        this.#holderOf(this.jobs.pageOf(slot).holder[rowOf(slot)]!) === session,
        "only a holder ends its reservation",
      );
    if (this.meter !== undefined) this.meterHold(this.meter, slot, nowMs);
    this.#leaveHolder(slot, session, nowMs);
    this.sessionTimers.set(session);
  }

  // --- kick --------------------------------------------------------------------------------------

  /** Returns whether a kick takes buried jobs; it takes delayed ones only if none is buried. */
  kicksBuried(session: Session): boolean {
    return session.tubeInUse.buriedJobs > 0;
  }

  /** Kicks up to `bound` buried jobs (oldest first) or delayed ones (soonest first). */
  kick(session: Session, bound: number, nowMs: number, buried: boolean = this.kicksBuried(session)): number {
    this.runDue(nowMs);
    const tube = session.tubeInUse;
    let kicked = 0;
    while (kicked < bound) {
      assert(tube.using > 0, "a tube whose jobs are kicked is in use");
      const slot = buried ? tube.buried.first : tube.delayed.top;
      if (slot === NO_SLOT || this.batches.waits(slot)) break;
      this.kickOne(slot, tube, nowMs);
      kicked++;
    }
    return kicked;
  }

  kickJob(id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const state = this.jobs.pageOf(slot).state[rowOf(slot)];
    if (state !== JobState.Buried && state !== JobState.Delayed) return Outcome.NotFound;
    if (this.batches.waits(slot)) return Outcome.NotFound;
    this.kickOne(slot, this.tubeOf(slot), nowMs);
    return Outcome.Done;
  }

  kickOne(slot: number, tube: Tube, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(
      page.state[row] === JobState.Buried || page.state[row] === JobState.Delayed,
      "only a buried or delayed job is kicked",
    );
    this.queues.leave(slot);
    tube.kicks++;
    this.jobKicks++;
    page.addTo(row, JobCounter.kicks);
    if (this.policies.applyTo(slot, tube)) this.policies.kicked(slot, tube);
    this.queues.becomeReady(slot, tube, nowMs);
    this.records?.updated(slot);
    // Buried jobs don't expire, but ready ones do, so this job may be long overdue.
    this.runDueAndServe(tube, nowMs);
    this.dropIfUnused(tube);
  }

  // --- reserve -----------------------------------------------------------------------------------

  /**
   * Gives the session the best ready job of its watched tubes. This shard must own all of these
   * tubes, and all jobs that the session holds. Returns the job's slot, or a ReserveOutcome; after
   * `Waits` the answer comes as an effect.
   */
  reserve(session: Session, timeoutMs: number, nowMs: number): number {
    this.runDue(nowMs);
    const slot = this.bestReady(session, nowMs);
    if (slot !== NO_SLOT) {
      session.turns?.endChoice();
      this.assign(slot, session, nowMs);
      return slot;
    }
    if (inMargin(session, nowMs)) return ReserveOutcome.DeadlineSoon;
    if (timeoutMs <= 0 || session.halfClosed) return ReserveOutcome.TimedOut;
    this.#startWaiting(session, Waiting.Alone, nowMs + timeoutMs);
    return ReserveOutcome.Waits;
  }

  reserveJob(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const state = this.jobs.pageOf(slot).state[rowOf(slot)];
    if (state === JobState.Reserved || state === JobState.Moving) return Outcome.NotFound;
    if (this.batches.waits(slot)) return Outcome.NotFound;
    if (this.isOverdue(slot, nowMs)) return Outcome.NotFound;
    this.assign(slot, session, nowMs);
    // The log treats reserved jobs as ready; this one must not return as buried or delayed after a
    // restart.
    if (state !== JobState.Ready) this.records?.updated(slot);
    return Outcome.Done;
  }

  /** Gives the session a job at least as good as (pri, id); returns its slot or NO_SLOT. */
  takeUpTo(session: Session, pri: number, id: number, nowMs: number): number {
    this.runDue(nowMs);
    const slot = this.bestReady(session, nowMs);
    if (slot === NO_SLOT) return NO_SLOT;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.pri[row]! > pri || (page.pri[row]! === pri && page.id[row]! > id)) return NO_SLOT;
    this.assign(slot, session, nowMs);
    return slot;
  }

  /**
   * Gives a session that picks by weight the job whose turn it is, unless its place in the order is
   * after `place`, or is equal and the job is worse than (pri, id). Returns its slot or NO_SLOT.
   */
  takeInTurn(session: Session, place: number, pri: number, id: number, nowMs: number): number {
    const { turns } = session;
    assert(turns?.decides === true, "a session that takes turns picks by weight");
    this.runDue(nowMs);
    const slot = this.bestReady(session, nowMs);
    if (slot === NO_SLOT || turns.place > place) return NO_SLOT;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const isWorse = page.pri[row]! > pri || (page.pri[row]! === pri && page.id[row]! > id);
    if (turns.place === place && isWorse) return NO_SLOT;
    this.assign(slot, session, nowMs);
    return slot;
  }

  // --- the best ready job ------------------------------------------------------------------------

  /**
   * Returns the best ready job for the session, by weight if it has chosen so, or NO_SLOT; the job
   * stays in its queue.
   */
  bestReady(session: Session, nowMs: number): number {
    const { turns } = session;
    return turns?.decides === true ? this.#firstInTurn(session, turns, nowMs) : this.#best(session);
  }

  #best(session: Session): number {
    const { readyTubes } = this.queues;
    if (readyTubes.length === 0) return NO_SLOT;
    const { watches } = session;
    if (this.isOrdered(session)) return this.firstInOrder(session)?.ready.top ?? NO_SLOT;
    let best: number = NO_SLOT;
    this.looks += Math.min(watches.size, readyTubes.length);
    if (watches.size <= readyTubes.length) {
      for (const tube of watches.keys()) if (tube.readyAt >= 0) best = this.#better(tube, best);
    } else {
      for (const tube of readyTubes) if (watches.has(tube)) best = this.#better(tube, best);
    }
    return best;
  }

  /**
   * Returns whether the session has so many tubes to choose from that it keeps them in an order.
   * While jobs are overdue to expire, the order is unusable: it ignores that their tubes give none.
   */
  isOrdered(session: Session): boolean {
    const tubes = Math.min(session.watches.size, this.queues.readyTubes.length);
    if (tubes > this.orderedTubesMin) return this.expiryBehindAtMs === 0;
    if (session.order !== undefined && tubes <= this.orderedTubesMin >> 1) this.#endOrder(session);
    return false;
  }

  /** Returns the watched tube whose available job is best. */
  firstInOrder(session: Session): Tube | undefined {
    const { readyTubes } = this.queues;
    const order = (session.order ??= this.#newOrder(session));
    const tube = order.best(session.watches, readyTubes);
    assert(tube === undefined || tube.readyAt >= 0, "the first tube in order has a ready job");
    this.looks += order.looks;
    order.looks = 0;
    return tube;
  }

  /** Returns whether the session's next reserve would look at very many tubes. */
  needsOrder(session: Session): boolean {
    const tubes = Math.min(session.watches.size, this.queues.readyTubes.length);
    return (
      tubes > AT_ONCE * this.orderedTubesMin &&
      this.isOrdered(session) &&
      session.order?.isStale(tubes) !== false
    );
  }

  /** Prepares for that reserve, with up to `tubesMax` tubes. Returns whether that was all. */
  prepareOrder(session: Session, tubesMax: number, nowMs: number): boolean {
    assert(tubesMax > 0, "a step looks at a tube");
    this.runDue(nowMs);
    if (!this.needsOrder(session)) return true;
    session.turns?.beginChoice(nowMs);
    const order = (session.order ??= this.#newOrder(session));
    const isComplete = order.build(session.watches, this.queues.readyTubes, tubesMax);
    this.looks += order.looks;
    order.looks = 0;
    return isComplete;
  }

  #newOrder({ turns }: Session): ReadyOrder {
    return new ReadyOrder(this.jobs, this.queues.better, turns?.decides === true ? turns : undefined);
  }

  #endOrder(session: Session): void {
    session.order?.end();
    session.order = undefined;
  }

  /** Returns the job whose turn it is; `turns` then has its place in the order. */
  #firstInTurn(session: Session, turns: TubeTurns, nowMs: number): number {
    turns.beginChoice(nowMs);
    if (this.isOrdered(session)) return this.#firstOfMany(session, turns);
    const { readyTubes } = this.queues;
    const { watches } = session;
    let best: number = NO_SLOT;
    this.looks += TURN_LOOKS * Math.min(watches.size, readyTubes.length);
    if (watches.size <= readyTubes.length) {
      for (const tube of watches.keys()) if (this.gives(tube)) best = this.#sooner(turns, tube, best);
    } else {
      for (const tube of readyTubes)
        if (watches.has(tube) && this.gives(tube)) best = this.#sooner(turns, tube, best);
    }
    return best;
  }

  #firstOfMany(session: Session, turns: TubeTurns): number {
    const tube = this.firstInOrder(session);
    let best = tube === undefined ? NO_SLOT : this.#sooner(turns, tube, NO_SLOT);
    const looks = turns.eachHeld(
      (held) => this.gives(held),
      (held) => (best = this.#sooner(turns, held, best)),
    );
    this.looks += TURN_LOOKS * looks;
    return best;
  }

  /** Returns the tube's best job if its turn comes before that of `best`; otherwise `best`. */
  #sooner(turns: TubeTurns, tube: Tube, best: number): number {
    const place = turns.enter(tube);
    const { top } = tube.ready;
    assert(place >= turns.earliest, "the earliest turn is that of a tube in the choice");
    if (place > turns.place || (place === turns.place && !betterJob(this.jobs, top, best))) return best;
    turns.place = place;
    return top;
  }

  gives(tube: Tube): boolean {
    return tube.open && tube.readyAt >= 0 && tube.ready.top !== NO_SLOT && !this.isStale(tube);
  }

  /** Returns the tube's best job if it is available and better than `best`; otherwise `best`. */
  #better(tube: Tube, best: number): number {
    const { top } = tube.ready;
    return tube.open && betterJob(this.jobs, top, best) && !this.isStale(tube) ? top : best;
  }

  // --- shares of tubes ---------------------------------------------------------------------------

  /**
   * Returns the shares of the session's tubes. From the beginning, they count the jobs that it
   * holds.
   */
  #turnsOf(session: Session, nowMs: number): TubeTurns {
    if (session.turns !== undefined) return session.turns;
    const turns = new TubeTurns(this.waiters);
    for (const tube of session.watches.keys()) turns.watch(tube);
    const { heldInOrder } = session;
    for (let slot = heldInOrder.first; slot !== NO_SLOT; slot = heldInOrder.behind(slot))
      turns.holdsAgain(this.tubeOf(slot), nowMs);
    this.looks += TURN_LOOKS * (session.watches.size + session.held.size);
    assert(turns.shares.size >= session.watches.size, "each watched tube has a share");
    session.turns = turns;
    return turns;
  }

  /** Gives a weight to a tube that the session watches. */
  weigh(session: Session, name: string, weight: number, nowMs: number): void {
    const tube = this.tubes.get(name);
    assert(tube !== undefined && session.watches.has(tube), "a tube that gets a weight is watched");
    this.#turnsOf(session, nowMs).weigh(tube, weight, nowMs);
  }

  /**
   * Raises the floor of a session with turns to one that another shard or the acceptor has found.
   */
  raiseFloor(session: Session, floor: number): void {
    session.turns?.raiseFloor(floor);
  }

  /** Sets how the session picks jobs, and restarts the counts. */
  setOrder(session: Session, order: ReserveOrder, nowMs: number): void {
    this.runDue(nowMs);
    if (order === ReserveOrder.Strict && session.turns === undefined) return;
    this.#endOrder(session);
    const turns = this.#turnsOf(session, nowMs);
    turns.begin(order, nowMs);
    this.looks += turns.shares.size;
  }

  // --- waits -------------------------------------------------------------------------------------

  /**
   * Lets the session wait here for its share of the watched tubes. If a job is ready by now, the
   * session gets it as an effect, unless another shard claims the wait first. `timeoutAtMs` is
   * Infinity on all shards but one.
   */
  waitShared(session: Session, timeoutAtMs: number, nowMs: number): void {
    assert(session.waiting === Waiting.No, "a session begins to wait once");
    this.runDue(nowMs);
    const slot = this.bestReady(session, nowMs);
    if (slot === NO_SLOT) {
      this.#startWaiting(session, Waiting.Shared, timeoutAtMs);
    } else if (this.effects.claim(session)) {
      session.turns?.waited(this.tubeOf(slot), nowMs);
      this.assign(slot, session, nowMs);
      this.effects.reserved(session, slot);
    }
  }

  /** Ends this shard's part of a shared wait that ended elsewhere. */
  stopSharedWait(session: Session, nowMs: number): void {
    if (session.waiting === Waiting.Shared) this.#endWait(session, nowMs);
    this.sessionTimers.set(session);
  }

  /**
   * Handles a client that can't send any more: its wait ends with a timeout, and no other begins.
   */
  halfClose(session: Session, nowMs: number): void {
    this.runDue(nowMs);
    session.halfClosed = true;
    if (session.waiting !== Waiting.Alone) return;
    this.waiters.end(session);
    this.sessionTimers.set(session);
    this.effects.timedOut(session);
  }

  /** Ends a wait on this shard alone, without an effect; false if a job has just ended it. */
  abortWait(session: Session, nowMs: number): boolean {
    this.runDue(nowMs);
    if (session.waiting !== Waiting.Alone) return false;
    this.waiters.end(session);
    this.sessionTimers.set(session);
    return true;
  }

  /** Ends the wait of a session whose connection is gone, without an effect. */
  abandonWait(session: Session, nowMs: number): void {
    if (session.waiting !== Waiting.No) this.#endWait(session, nowMs);
    this.sessionTimers.set(session);
  }

  /** Ends a wait. If its acceptor was about to count, the others may count in its place. */
  #endWait(session: Session, nowMs: number): void {
    const { isTold } = session;
    this.waiters.end(session);
    if (isTold) this.#serveFillsOf(session, nowMs);
  }

  #startWaiting(session: Session, waiting: Waiting, timeoutAtMs: number): void {
    assert(
      waiting === Waiting.Shared || !session.halfClosed,
      "a client that can't send never waits here alone",
    );
    this.waiters.begin(session, waiting, timeoutAtMs);
    this.sessionTimers.set(session);
    assert(session.timer.atMs <= timeoutAtMs, "a wait ends at its timeout at the latest");
  }

  // --- batches that fill -------------------------------------------------------------------------
  //
  // A session that waits for a batch to fill gets no job: its acceptor counts the ready jobs of all
  // shards, and each shard tells it when to count again. Of the sessions that wait for jobs of one
  // tube, one at a time is told. The next one is examined when the acceptor has taken its jobs, or
  // waits on: otherwise all would count for the jobs that the first one takes.

  /** Returns how many jobs are ready in those watched tubes that give one now. */
  readyFor(session: Session): number {
    const { watches } = session;
    const { readyTubes } = this.queues;
    let ready = 0;
    this.looks += Math.min(watches.size, readyTubes.length);
    if (watches.size <= readyTubes.length) {
      for (const tube of watches.keys()) if (this.gives(tube)) ready += tube.jobsIn(JobState.Ready);
    } else {
      for (const tube of readyTubes)
        if (watches.has(tube) && this.gives(tube)) ready += tube.jobsIn(JobState.Ready);
    }
    return ready;
  }

  /**
   * Lets the session wait, or wait on, until `fillsAt` of its jobs are ready here, until `lingerMs`
   * after the first of them, or until `timeoutAtMs`. Then its acceptor is told once.
   */
  waitToFill(session: Session, fillsAt: number, lingerMs: number, timeoutAtMs: number, nowMs: number): void {
    assert(fillsAt > 0, "a batch that is full waits for no job");
    this.runDue(nowMs);
    this.looks += session.watches.size;
    session.fillsAt = fillsAt;
    if (session.waiting === Waiting.No) this.#startWaiting(session, Waiting.Shared, timeoutAtMs);
    else if (session.isTold) this.waiters.release(session);
    session.lingerMs = lingerMs;
    session.lingerEndsAtMs = Number.POSITIVE_INFINITY;
    session.timeoutAtMs = timeoutAtMs;
    this.sessionTimers.set(session);
    const ready = this.readyFor(session);
    if (ready > 0) this.#beginLinger(session, nowMs);
    // The first job begins its time.
    this.#expect(session, session.lingerMs < Number.POSITIVE_INFINITY ? 0 : fillsAt - ready);
    this.#serveFillsOf(session, nowMs);
  }

  /** Examines the waits for batches from those tubes of this session that have enough jobs. */
  #serveFillsOf(session: Session, nowMs: number): void {
    if (this.waiters.fills === 0) return;
    const { watches } = session;
    const { readyTubes } = this.queues;
    this.looks += Math.min(watches.size, readyTubes.length);
    const tubes = watches.size <= readyTubes.length ? watches.keys() : readyTubes;
    for (const tube of tubes) if (watches.has(tube)) this.#serveFills(tube, nowMs);
  }

  /** Examines the waits for batches from a tube that may have got a job. */
  #serveFills(tube: Tube, nowMs: number): void {
    const waiters = this.waiters.of(tube);
    if (waiters?.fills === undefined || tube.jobsIn(JobState.Ready) < waiters.fillsAt) return;
    if (this.gives(tube)) this.#compareFills(waiters, nowMs);
  }

  /** Tells the first session whose batch may be full, unless one is told already. */
  #compareFills(waiters: TubeWaiters, nowMs: number): void {
    const { fills } = waiters;
    if (fills === undefined) return;
    this.looks += fills.size;
    let isOneTold = false;
    for (const session of fills) {
      this.#beginLinger(session, nowMs);
      isOneTold ||= session.isTold;
    }
    // The wait that is told sets it back when its acceptor has decided.
    waiters.fillsAt = Number.POSITIVE_INFINITY;
    if (isOneTold) return;
    for (const session of fills) {
      const missing = session.fillsAt - this.readyFor(session);
      if (missing > 0) this.#expect(session, missing);
      else {
        this.#tell(session);
        waiters.fillsAt = Number.POSITIVE_INFINITY;
        return;
      }
    }
  }

  /**
   * Divides the missing jobs among the tubes: until one has its share more, some are missing. With
   * none missing, the next job of any tube has the session examined.
   */
  #expect(session: Session, missing: number): void {
    const { watches } = session;
    this.looks += watches.size;
    const share = Math.ceil(missing / watches.size);
    for (const tube of watches.keys()) {
      const waiters = this.waiters.of(tube);
      assert(waiters !== undefined, "a session waits in each tube that it watches");
      const ready = this.gives(tube) ? tube.jobsIn(JobState.Ready) : 0;
      waiters.fillsAt = Math.min(waiters.fillsAt, missing > 0 ? ready + share : 0);
    }
  }

  #beginLinger(session: Session, nowMs: number): void {
    if (session.lingerMs === Number.POSITIVE_INFINITY || session.isTold) return;
    session.lingerEndsAtMs = nowMs + session.lingerMs;
    session.lingerMs = Number.POSITIVE_INFINITY;
    session.timeoutAtMs = Math.min(session.timeoutAtMs, session.lingerEndsAtMs);
    if (session.timeoutAtMs <= nowMs) this.#tell(session);
    else this.sessionTimers.set(session);
  }

  /** Reports once that a shared wait is due: the acceptor either ends it or sets a new deadline. */
  #tell(session: Session): void {
    assert(session.waiting === Waiting.Shared, "only a shared wait is decided by an acceptor");
    session.timeoutAtMs = Number.POSITIVE_INFINITY;
    this.sessionTimers.setForTimeout(session);
    if (session.isTold) return;
    session.isTold = session.fillsAt > 0;
    this.effects.waitDue(session);
  }

  // --- reservations ------------------------------------------------------------------------------

  touch(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.heldBy(session, id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    this.jobTouches++;
    this.queues.renew(slot, session, nowMs);
    this.sessionTimers.set(session);
    return Outcome.Done;
  }

  /**
   * Renews the TTR of up to `jobsMax` jobs that the session holds and that this command has not
   * reached yet; `begins` starts at the first. Returns whether that was all.
   */
  touchSome(session: Session, begins: boolean, jobsMax: number, nowMs: number): boolean {
    assert(jobsMax > 0, "a slice touches a job");
    if (begins) session.nextToTouch = session.heldInOrder.first;
    this.runDue(nowMs);
    let slot = session.nextToTouch;
    for (let left = jobsMax; slot !== NO_SLOT && left > 0; left--) {
      this.queues.renew(slot, session, nowMs);
      slot = session.heldInOrder.behind(slot);
    }
    session.nextToTouch = slot;
    this.sessionTimers.set(session);
    return slot === NO_SLOT;
  }

  /** Moves a reservation to another session, at once or later; its deadline stays. */
  hand(slot: number, from: Session, to: Session): void {
    assert(from !== to, "a reservation is handed to another session");
    this.queues.hand(slot, from, to);
    this.sessionTimers.set(from);
    this.sessionTimers.set(to);
  }

  /** Returns one job that the session holds but that its client never received. */
  giveBackOne(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.heldBy(session, id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    this.#takeBack(slot, session, ENDS.Unreceived, nowMs);
    this.sessionTimers.set(session);
    return Outcome.Done;
  }

  /** Ends any session's reservation as its timeout would; NotFound if the job isn't reserved. */
  timeOutNow(id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Reserved) return Outcome.NotFound;
    const holder = this.#holderOf(page.holder[row]!);
    if (CHECKED)
      assert(holder.held.at(page.heapPosition[row]!) === slot, "a reserved job is among those of its holder");
    this.#timeOut(slot, holder, nowMs);
    this.sessionTimers.set(holder);
    return Outcome.Done;
  }

  // --- ready jobs to waiting sessions ---------------------------------------------------------

  /** Gives ready jobs of the tube to waiting clients. */
  #serve(tube: Tube, nowMs: number): void {
    if (tube.limiter !== undefined) this.#setOpen(tube, nowMs);
    while (tube.open && tube.ready.top !== NO_SLOT && this.#serveOne(tube, nowMs)) {
      // while there are a job and a waiter
    }
    if (this.waiters.fills > 0) this.#serveFills(tube, nowMs);
  }

  /** Serves a tube after a reservation ended: under a limit, another job may now be available. */
  serveIfLimited(tube: Tube, nowMs: number): void {
    if (tube.limiter !== undefined || tube.groups !== undefined) this.#serve(tube, nowMs);
  }

  /** Gives the tube's best job to the longest-waiting session; returns false if none waits. */
  #serveOne(tube: Tube, nowMs: number): boolean {
    if (this.isStale(tube)) return false;
    for (;;) {
      const session = this.waiters.longest(tube);
      if (session === undefined) return false;
      const shared = session.waiting === Waiting.Shared;
      this.waiters.end(session);
      if (shared && !this.effects.claim(session)) {
        this.sessionTimers.set(session);
        continue;
      }
      const slot = tube.ready.top;
      assert(tube.open && slot !== NO_SLOT, "only an open tube with a job serves a waiter");
      session.turns?.waited(tube, nowMs);
      this.assign(slot, session, nowMs);
      this.effects.reserved(session, slot);
      return true;
    }
  }

  /** Returns whether the tube's best job is overdue, so that the tube gives none this turn. */
  isStale(tube: Tube): boolean {
    return this.expiryBehindAtMs > 0 && tube.topExpiresAtMs <= this.expiryBehindAtMs;
  }

  /** Returns whether a job should have expired, but more were due than a turn allows. */
  isOverdue(slot: number, nowMs: number): boolean {
    return this.expiryBehindAtMs > 0 && this.jobs.pageOf(slot).extras?.isOver(rowOf(slot), nowMs) === true;
  }

  /** Updates whether the tube gives jobs now, and the timer of its rate limiter. */
  #setOpen(tube: Tube, nowMs: number): void {
    const { limiter, paused, groups } = tube;
    const wasOpen = tube.open;
    if (limiter !== undefined && groups !== undefined) this.#refill(tube, groups, nowMs);
    const cost = limiter === undefined ? 1 : this.jobs.costOf(tube.ready.top);
    tube.open = !paused && (limiter === undefined || limiter.isOpen(tube.inWork, nowMs, cost));
    if (tube.open && !wasOpen) this.queues.improved(tube);
    if (limiter === undefined) return;
    const tokenAtMs = paused ? Number.POSITIVE_INFINITY : limiter.tokenAtMs(nowMs, cost);
    this.rateTimers.set(tube.limiterTimer, Math.min(tokenAtMs, groups?.nextAtMs ?? tokenAtMs));
    if (!wasOpen || tube.open || tokenAtMs === Number.POSITIVE_INFINITY) return;
    tube.counts.rateWaits++;
    this.rateWaits++;
  }

  /** Finds the groups that lack tokens, and lets those go on that have them again. */
  #refill(tube: Tube, groups: JobGroups, nowMs: number): void {
    while (groups.nextAtMs <= nowMs && this.#mayRunDue()) groups.refillNext(nowMs);
    groups.refill(nowMs);
    if (groups.waits === 0) return;
    tube.counts.groupRateWaits += groups.waits;
    this.groupRateWaits += groups.waits;
    groups.waits = 0;
  }

  // --- a reservation begins -------------------------------------------------------------------

  /** Gives the session a job that is not reserved. */
  assign(slot: number, session: Session, nowMs: number): void {
    if (CHECKED)
      assert(this.jobs.pageOf(slot).state[rowOf(slot)] !== JobState.Reserved, "a job has one holder");
    this.jobReserves++;
    if (this.meter !== undefined) this.#meterWait(this.meter, slot, nowMs);
    if (session.turns !== undefined) session.turns.took(this.tubeOf(slot), nowMs);
    this.queues.leave(slot);
    const mayMatter = this.queues.becomeReserved(slot, session, nowMs);
    this.sessionTimers.set(session);
    if (mayMatter) this.#applyPolicies(slot, nowMs);
  }

  #meterWait(meter: Meter, slot: number, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Ready) return;
    const ms = nowMs - page.deadlineAtMs[row]!;
    meter.waited(ms);
    this.tubeOf(slot).meter?.waited(ms);
  }

  /**
   * Measures a reservation that its holder ends. A touch restarts the time, because no column
   * records when a job was reserved.
   */
  meterHold(meter: Meter, slot: number, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const ms = nowMs - (page.deadlineAtMs[row]! - page.ttrSeconds[row]! * 1000);
    meter.held(ms);
    this.tubeOf(slot).meter?.held(ms);
  }

  /** Handles side effects of a reservation on the job's key and the tube's rate limiter. */
  #applyPolicies(slot: number, nowMs: number): void {
    const { extras } = this.jobs.pageOf(slot);
    if (extras !== undefined) {
      this.policies.keys.reserved(slot, nowMs);
      this.policies.notes.forget(extras, rowOf(slot));
    }
    const tube = this.tubeOf(slot);
    if (tube.keepFinished > 0 || this.jobs.pageOf(slot).startedAtMs !== undefined)
      this.policies.finished.begins(slot, tube, nowMs);
    if (tube.limiter === undefined) return;
    assert(tube.inWork > 0, "a job that was taken is counted as held");
    const cost = this.jobs.costOf(slot);
    tube.limiter.took(nowMs, cost);
    if (extras !== undefined) tube.groups?.took(extras.groupRow[rowOf(slot)]!, cost, nowMs);
    this.#setOpen(tube, nowMs);
  }

  // --- a reservation ends ---------------------------------------------------------------------

  /**
   * Ends a reservation without its holder: unless a policy says otherwise, the job becomes ready
   * and is offered. For a plain job, an end that is no attempt needs no record: the log treats
   * reserved jobs as ready, and excuses their reservations.
   */
  #takeBack(slot: number, session: Session, end: End, nowMs: number): void {
    const tube = this.tubeOf(slot);
    assert(session.held.size > 0, "a job is taken back from its holder");
    this.#leaveHolder(slot, session, nowMs);
    if (end.failure !== undefined) this.policies.failures.add(slot, end.failure, session.index, nowMs);
    const hasPolicies = this.policies.applyTo(slot, tube);
    if (!end.isAttempt) this.policies.excused(slot);
    if (hasPolicies) {
      this.#endReservation(slot, tube, end, 0, nowMs);
      return;
    }
    this.queues.becomeReady(slot, tube, nowMs);
    if (end.isAttempt) this.records?.updated(slot);
    this.#serve(tube, nowMs);
  }

  /** Ends a reservation of a job that left its holder; the policies decide where the job goes. */
  #endReservation(slot: number, tube: Tube, end: End, delayMs: number, nowMs: number): void {
    const readyIn = this.policies.reservationEnded(slot, tube, end, delayMs, nowMs);
    if (readyIn !== undefined) this.#serve(readyIn, nowMs);
    if (readyIn === tube) return;
    this.serveIfLimited(tube, nowMs);
    this.dropIfUnused(tube);
  }

  /** Takes a reserved job from its holder; the caller sets the session's timer. */
  #leaveHolder(slot: number, session: Session, nowMs: number): void {
    if (session.turns !== undefined) {
      const tube = this.tubeOf(slot);
      if (session.turns.gaveBack(tube, nowMs)) session.order?.add(tube, session.watches.size);
    }
    this.queues.leaveHolder(slot, session);
  }

  /** Takes a job out of its queue, in any state. */
  leave(slot: number, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Reserved) {
      this.queues.leave(slot);
      return;
    }
    const holder = this.#holderOf(page.holder[row]!);
    this.#leaveHolder(slot, holder, nowMs);
    this.sessionTimers.set(holder);
  }

  #holderOf(index: number): Session {
    const holder = this.sessions[index];
    assert(holder !== undefined, "the holder of a job has a session");
    assert(holder.index === index, "a session is found at its index");
    return holder;
  }

  // --- tubes ----------------------------------------------------------------------------------

  /** Deletes the tube if nothing refers to it; `default` stays. */
  dropIfUnused(tube: Tube): void {
    if (!tube.referenced && tube !== this.defaultTube) this.#drop(tube);
  }

  #drop(tube: Tube): void {
    assert(tube.readyAt < 0 && tube.urgentJobs === 0, "a deleted tube has no ready job");
    assert(tube.bytes === 0, "a tube without jobs has no bytes");
    assert(tube.handedJobs === 0 && tube.extraWork === 0, "a deleted tube has no held job");
    if (CHECKED) assert(tube.delayTimer.position < 0, "a tube without delayed jobs has no timer for them");
    if (CHECKED) assert(tube.expiryTimer.position < 0, "a tube without expiring jobs has no timer for them");
    if (CHECKED) assert(this.waiters.longest(tube) === undefined, "no session waits for a deleted tube");
    if (tube.groups !== undefined) this.queues.untidy.delete(tube);
    if (tube.paused) this.pauseTimers.set(tube.pauseTimer, Number.POSITIVE_INFINITY);
    if (tube.limiter !== undefined) this.rateTimers.set(tube.limiterTimer, Number.POSITIVE_INFINITY);
    this.tubes.remove(tube);
  }

  // --- counts ------------------------------------------------------------------------------------

  get urgentJobs(): number {
    return this.queues.urgentJobs;
  }

  /** Number of reserved jobs. */
  get jobsReserved(): number {
    return this.jobCounts[JobState.Reserved]!;
  }

  hasReserved(tube: Tube): boolean {
    return tube.jobsIn(JobState.Reserved) > 0;
  }

  /** Number of sessions that wait on this shard alone. */
  get waitingAlone(): number {
    return this.waiters.alone;
  }

  waitingOn(tube: Tube): number {
    const count = this.waiters.count(tube);
    assert(count <= tube.watching, "only sessions that watch a tube wait for it");
    this.looks += count + (this.waiters.of(tube)?.wide?.size ?? 0);
    return count;
  }

  /** Does cleanup that nothing waits for, for about a fifth of a millisecond. */
  tidy(): void {
    this.queues.tidy(TIDIED_GROUPS_MAX);
  }

  // --- sessions ----------------------------------------------------------------------------------

  /** Returns the session with this index; creates it at its first use. */
  session(index: number): Session {
    return (this.sessions[index] ??= new Session(index, this.jobs));
  }

  /** Returns the session with this index, if there is one. */
  sessionAt(index: number): Session | undefined {
    return this.sessions[index];
  }

  /** Removes a session whose connection ended; its jobs become ready at once. */
  closeSession(session: Session, nowMs: number): void {
    this.giveBack(session, Number.POSITIVE_INFINITY, nowMs);
    assert(
      session.held.size === 0 && session.watches.size === 0,
      "a closed session holds and watches nothing",
    );
    assert(session.waiting === Waiting.No, "a closed session waits for nothing");
    assert(this.sessions[session.index] === session, "a session is closed once");
    this.#endOrder(session);
    session.turns?.end();
    this.sessionTimers.clear(session);
    assert(session.timer.position < 0, "a closed session has no timer");
    this.unuse(session);
    this.sessions[session.index] = undefined;
  }

  /** Removes an idle session from its index; it continues to use and watch its tubes. */
  detachSession(session: Session): void {
    assert(this.sessions[session.index] === session, "a session leaves its own index");
    assert(
      session.held.size === 0 && session.waiting === Waiting.No,
      "only an idle session changes its index",
    );
    this.sessions[session.index] = undefined;
  }

  /** Gives a detached session another index. */
  adoptSession(session: Session, index: number): void {
    assert((this.sessions[index]?.watches.size ?? 0) === 0, "an index has one session");
    assert(session.held.size === 0, "a session that holds a job keeps its index");
    session.index = index;
    this.sessions[index] = session;
  }

  /**
   * Makes the jobs of an ending session ready in the order of reservation, and offers each to
   * waiting clients before the next. Then removes the session from the tubes that it watches. Does
   * up to `stepsMax` of both; returns whether nothing is left.
   */
  giveBack(session: Session, stepsMax: number, nowMs: number): boolean {
    this.runDue(nowMs);
    if (session.waiting !== Waiting.No) this.#endWait(session, nowMs);
    const { heldInOrder } = session;
    const end = session.endsWithServer ? ENDS.Stopped : ENDS.Disconnected;
    let steps = 0;
    for (; heldInOrder.first !== NO_SLOT && steps < stepsMax; steps++)
      this.#takeBack(heldInOrder.first, session, end, nowMs);
    assert(
      (heldInOrder.first === NO_SLOT) === (session.held.size === 0),
      "a session's heap and list have the same jobs",
    );
    this.sessionTimers.set(session);
    session.unwatching ??= session.watches.values();
    for (; session.watches.size > 0; steps++) {
      if (steps >= stepsMax) return false;
      const watch = session.unwatching.next();
      assert(watch.done !== true, "each watch is ended once");
      this.#unwatch(watch.value);
    }
    return heldInOrder.first === NO_SLOT;
  }

  // --- tubes -------------------------------------------------------------------------------------

  /** Returns the tube of this name, if it exists. */
  findTube(name: string): Tube | undefined {
    return this.tubes.get(name);
  }

  use(session: Session, name: string): void {
    const tube = this.tubes.open(name);
    if (session.used === tube) return;
    tube.using++;
    this.unuse(session);
    session.used = tube;
    assert(tube.using > 0, "the user of a tube is counted");
    if (CHECKED) assert(this.findTube(name) === tube, "the tube in use is among the tubes");
  }

  unuse(session: Session): void {
    const tube = session.used;
    if (tube === undefined) return;
    assert(tube.using > 0, "each user of a tube is counted");
    session.used = undefined;
    tube.using--;
    this.dropIfUnused(tube);
  }

  watch(session: Session, name: string): void {
    const tube = this.tubes.open(name);
    if (session.watches.has(tube)) return;
    this.waiters.watch(session, tube);
    session.turns?.watch(tube);
    session.order?.add(tube, session.watches.size);
    assert(tube.watching > 0, "the watcher of a tube is counted");
  }

  ignore(session: Session, name: string): void {
    const tube = this.findTube(name);
    const watch = tube === undefined ? undefined : session.watches.get(tube);
    if (watch === undefined) return;
    this.#unwatch(watch);
    session.order?.trim(session.watches.size);
  }

  #unwatch(watch: Watch): void {
    this.waiters.unwatch(watch);
    watch.session.turns?.unwatch(watch.tube);
    if (CHECKED) assert(!watch.session.watches.has(watch.tube), "a watch that has ended is forgotten");
    this.dropIfUnused(watch.tube);
  }

  /** Pauses a tube; returns false if the tube does not exist. */
  pause(name: string, seconds: number, nowMs: number): boolean {
    this.runDue(nowMs);
    const tube = this.findTube(name);
    if (tube === undefined) return false;
    tube.pauses++;
    tube.pauseSeconds = seconds;
    const endsAtMs = seconds > 0 ? nowMs + seconds * 1000 : Number.POSITIVE_INFINITY;
    this.pauseTimers.set(tube.pauseTimer, endsAtMs);
    this.#setOpen(tube, nowMs);
    assert(tube.paused === seconds > 0, "a tube is paused while its timer runs");
    assert(!tube.paused || !tube.open, "a paused tube gives no job");
    if (seconds === 0) this.#serve(tube, nowMs);
    return true;
  }

  // --- settings ----------------------------------------------------------------------------------

  /**
   * Replaces all settings of a tube or pattern for new tubes at once; no values remove the pattern.
   * The result's steps apply it to existing tubes.
   */
  beginSetting(pattern: string, values: Partial<SettingValues>): SettingChange {
    this.settings.set(pattern, values);
    return new SettingChange(this, pattern);
  }

  /** Applies its settings to a tube and its groups; returns the remaining `looks`. */
  applySettings(tube: Tube, looks: number, nowMs: number): number {
    const { policy } = this.tubes.applySettings(tube, nowMs);
    if (tube.limiter === undefined) this.rateTimers.set(tube.limiterTimer, Number.POSITIVE_INFINITY);
    tube.groups?.limit(policy);
    this.policies.finished.clip(tube.name, tube.keepFinished);
    assert(tube.limiter === undefined || policy !== undefined, "a rate limiter comes from a setting");
    return this.settleGroups(tube, looks, nowMs);
  }

  /** Continues with a tube whose groups lack its settings; returns the remaining `looks`. */
  settleGroups(tube: Tube, looks: number, nowMs: number): number {
    const left = tube.groups?.settle(looks, nowMs) ?? looks;
    assert(left <= looks, "a budget of looks never grows");
    this.#setOpen(tube, nowMs);
    this.#serve(tube, nowMs);
    return left;
  }
}
