// Gives ready jobs to sessions, and takes reserved ones back.
//
// The engine is one object, but its class is written in layers, one for each topic: README.md lists
// them. Each extends the one before it, and calls only itself and those before it.

import { assert, CHECKED } from "../base/assert.ts";
import type { End } from "./jobs/ends.ts";
import { JobState, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import type { JobStore } from "./policies/job-store.ts";
import { Policies } from "./policies/policies.ts";
import { type EngineOptions, ShardState } from "./state/shard-state.ts";
import type { Tube } from "./tubes/tube.ts";
import type { Meter } from "./waiting/effects.ts";
import { type Session, Waiting } from "./waiting/session.ts";

export class Delivery extends ShardState {
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
