// Gives ready jobs to sessions, and takes reserved ones back.
//
// The engine is one object, but its class is written in layers, one for each topic: README.md lists
// them. Each extends the one before it, and calls only itself and those before it.

import { assert, CHECKED } from "../base/assert.ts";
import { JobCounter } from "../schema/job.ts";
import { ENDS, type End } from "./jobs/ends.ts";
import { betterJob, JobState, type JobTable, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import type { JobStore } from "./policies/job-store.ts";
import { Policies } from "./policies/policies.ts";
import { BestHeap } from "./queues/heaps.ts";
import type { Meter } from "./state/effects.ts";
import { inMargin, isOver, type Session, Waiting } from "./state/session.ts";
import { type EngineOptions, ShardState } from "./state/shard-state.ts";
import type { Tube } from "./tubes/tube.ts";

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

class Delivery extends ShardState {
  readonly policies: Policies;
  readonly store: JobStore;

  constructor(options: EngineOptions) {
    super(options);
    this.policies = new Policies(this, options.keySeed ?? [0, 0], options.workerName ?? (() => 0));
    this.store = this.policies.store;
  }

  // --- ready jobs to waiting sessions ---------------------------------------------------------

  /** Gives ready jobs of the tube to waiting clients. */
  protected serve(tube: Tube, nowMs: number): void {
    if (tube.limiter !== undefined) this.setOpen(tube, nowMs);
    while (tube.open && tube.ready.top !== NO_SLOT && this.serveOne(tube, nowMs)) {
      // while there are a job and a waiter
    }
  }

  /** Serves a tube after a reservation ended: under a limit, another job may now be available. */
  protected serveIfLimited(tube: Tube, nowMs: number): void {
    if (tube.limiter !== undefined || tube.groups !== undefined) this.serve(tube, nowMs);
  }

  /** Gives the tube's best job to the longest-waiting session; returns false if none waits. */
  protected serveOne(tube: Tube, nowMs: number): boolean {
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
  protected isStale(tube: Tube): boolean {
    return this.expiryBehindAtMs > 0 && tube.topExpiresAtMs <= this.expiryBehindAtMs;
  }

  /** Returns whether a job should have expired, but more were due than a turn allows. */
  protected isOverdue(slot: number, nowMs: number): boolean {
    return this.expiryBehindAtMs > 0 && this.jobs.pageOf(slot).extras?.isOver(rowOf(slot), nowMs) === true;
  }

  /** Updates whether the tube gives jobs now, and the timer of its rate limiter. */
  protected setOpen(tube: Tube, nowMs: number): void {
    const { limiter, paused } = tube;
    const wasOpen = tube.open;
    tube.open = !paused && (limiter === undefined || limiter.isOpen(tube.inWork, nowMs));
    if (tube.open && !wasOpen) this.queues.improved(tube);
    if (limiter === undefined) return;
    const tokenAtMs = paused ? Number.POSITIVE_INFINITY : limiter.tokenAtMs(nowMs);
    this.rateTimers.set(tube.limiterTimer, tokenAtMs);
    if (!wasOpen || tube.open || tokenAtMs === Number.POSITIVE_INFINITY) return;
    tube.counts.rateWaits++;
    this.rateWaits++;
  }

  // --- a reservation begins -------------------------------------------------------------------

  /** Gives the session a job that is not reserved. */
  protected assign(slot: number, session: Session, nowMs: number): void {
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
  protected meterHold(meter: Meter, slot: number, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const ms = nowMs - (page.deadlineAtMs[row]! - page.ttrSeconds[row]! * 1000);
    meter.held(ms);
    this.tubeOf(slot).meter?.held(ms);
  }

  /** Handles side effects of a reservation on the job's key and the tube's rate limiter. */
  #applyPolicies(slot: number, nowMs: number): void {
    if (this.jobs.pageOf(slot).extras !== undefined) this.policies.keys.reserved(slot, nowMs);
    const tube = this.tubeOf(slot);
    if (tube.limiter === undefined) return;
    assert(tube.inWork > 0, "a job that was taken is counted as held");
    tube.limiter.took(nowMs);
    this.setOpen(tube, nowMs);
  }

  // --- a reservation ends ---------------------------------------------------------------------

  /**
   * Ends a reservation without its holder: unless a policy says otherwise, the job becomes ready
   * and is offered. For a plain job, an end that is no attempt needs no record: the log treats
   * reserved jobs as ready, and excuses their reservations.
   */
  protected takeBack(slot: number, session: Session, end: End, nowMs: number): void {
    const tube = this.tubeOf(slot);
    assert(session.held.size > 0, "a job is taken back from its holder");
    this.leaveHolder(slot, session, nowMs);
    if (end.failure !== undefined) this.policies.failures.add(slot, end.failure, session.index, nowMs);
    const hasPolicies = this.policies.applyTo(slot, tube);
    if (!end.isAttempt) this.policies.excused(slot);
    if (hasPolicies) {
      this.endReservation(slot, tube, end, 0, nowMs);
      return;
    }
    this.queues.becomeReady(slot, tube, nowMs);
    if (end.isAttempt) this.records?.updated(slot);
    this.serve(tube, nowMs);
  }

  /** Ends a reservation of a job that left its holder; the policies decide where the job goes. */
  protected endReservation(slot: number, tube: Tube, end: End, delayMs: number, nowMs: number): void {
    const readyIn = this.policies.reservationEnded(slot, tube, end, delayMs, nowMs);
    if (readyIn !== undefined) this.serve(readyIn, nowMs);
    if (readyIn === tube) return;
    this.serveIfLimited(tube, nowMs);
    this.dropIfUnused(tube);
  }

  /** Takes a reserved job from its holder; the caller sets the session's timer. */
  protected leaveHolder(slot: number, session: Session, nowMs: number): void {
    if (session.turns !== undefined) {
      const tube = this.tubeOf(slot);
      if (session.turns.gaveBack(tube, nowMs)) session.order?.add(tube, session.watches.size);
    }
    this.queues.leaveHolder(slot, session);
  }

  /** Takes a job out of its queue, in any state. */
  protected leave(slot: number, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Reserved) {
      this.queues.leave(slot);
      return;
    }
    const holder = this.holderOf(page.holder[row]!);
    this.leaveHolder(slot, holder, nowMs);
    this.sessionTimers.set(holder);
  }

  protected holderOf(index: number): Session {
    const holder = this.sessions[index];
    assert(holder !== undefined, "the holder of a job has a session");
    assert(holder.index === index, "a session is found at its index");
    return holder;
  }

  // --- tubes ----------------------------------------------------------------------------------

  /** Deletes the tube if nothing refers to it; `default` stays. */
  protected dropIfUnused(tube: Tube): void {
    if (!tube.referenced && tube !== this.defaultTube) this.#drop(tube);
  }

  #drop(tube: Tube): void {
    assert(tube.readyAt < 0 && tube.urgentJobs === 0, "a deleted tube has no ready job");
    assert(tube.bytes === 0, "a tube without jobs has no bytes");
    assert(tube.handedJobs === 0, "a deleted tube has no job in transit");
    if (CHECKED) assert(tube.delayTimer.position < 0, "a tube without delayed jobs has no timer for them");
    if (CHECKED) assert(tube.expiryTimer.position < 0, "a tube without expiring jobs has no timer for them");
    if (CHECKED) assert(this.waiters.longest(tube) === undefined, "no session waits for a deleted tube");
    if (tube.groups !== undefined) this.queues.untidy.delete(tube);
    if (tube.paused) this.pauseTimers.set(tube.pauseTimer, Number.POSITIVE_INFINITY);
    if (tube.limiter !== undefined) this.rateTimers.set(tube.limiterTimer, Number.POSITIVE_INFINITY);
    this.tubes.remove(tube);
  }
}

// Runs due timers: of expiring jobs, delayed jobs, pauses, rate limiters and sessions.

export class Timers extends Delivery {
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
      this.serve(tube, nowMs);
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
      this.serve(tube, nowMs);
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
  protected runDueAndServe(tube: Tube, nowMs: number): void {
    tube.using++;
    this.runDue(nowMs);
    assert(tube.using > 0, "a tube in use is not deleted");
    tube.using--;
    this.serve(tube, nowMs);
  }

  #mayRunDue(): boolean {
    if (this.dueLeft === 0) return false;
    this.dueLeft--;
    return true;
  }

  /** Serves all tubes that resume now, best job first: a client of several gets the best one. */
  #endPauses(nowMs: number): void {
    const resumed = new ResumedTubes(this.jobs);
    while (this.pauseTimers.nextAtMs <= nowMs && this.#mayRunDue()) {
      const tube = this.pauseTimers.first;
      assert(tube !== undefined, "a timer that is due has a tube");
      assert(tube.paused, "only a pause that has begun ends");
      this.pauseTimers.set(tube.pauseTimer, Number.POSITIVE_INFINITY);
      tube.pauseSeconds = 0;
      this.setOpen(tube, nowMs);
      if (tube.open && tube.ready.top !== NO_SLOT && this.waiters.longest(tube) !== undefined)
        resumed.push(tube);
    }
    for (let tube = resumed.first; tube !== undefined; tube = resumed.first) {
      if (this.serveOne(tube, nowMs)) resumed.firstServed();
      else resumed.pop();
    }
  }

  /** Serves tubes whose rate limiters have a token again. */
  #serveRefilled(nowMs: number): void {
    while (this.rateTimers.nextAtMs <= nowMs && this.#mayRunDue()) {
      const tube = this.rateTimers.first;
      assert(tube !== undefined, "a timer that is due has a tube");
      assert(tube.limiter !== undefined, "a timer of tokens has a rate limiter");
      this.serve(tube, nowMs);
    }
  }

  #forgetFullLimiters(nowMs: number): void {
    const { retiredLimiters } = this.tubes;
    while (retiredLimiters.nextAtMs <= nowMs && this.#mayRunDue()) retiredLimiters.forgetNext();
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
      this.timeOut(slot, session, nowMs);
    }
    const waitEnds = warns || session.timeoutAtMs <= nowMs;
    if (waitEnds && session.waiting === Waiting.Alone) {
      this.waiters.end(session);
      if (warns) this.effects.deadlineSoon(session);
      else this.effects.timedOut(session);
    } else if (waitEnds && session.waiting === Waiting.Shared) {
      // Report it once: the acceptor either ends the wait or sets a new deadline.
      session.timeoutAtMs = Number.POSITIVE_INFINITY;
      this.sessionTimers.setForTimeout(session);
      this.effects.waitDue(session);
      return;
    }
    this.sessionTimers.set(session);
  }

  /** Ends a reservation whose TTR is over; the caller sets the session's timer. */
  protected timeOut(slot: number, session: Session, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(page.state[row] === JobState.Reserved, "only a reservation times out");
    assert(page.holder[row] === session.index, "a reservation times out for its holder");
    page.addTo(row, JobCounter.timeouts);
    this.jobTimeouts++;
    this.tubeOf(slot).timeouts++;
    this.takeBack(slot, session, ENDS.TimedOut, nowMs);
  }
}
