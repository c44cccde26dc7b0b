// Runs due timers: of expiring jobs, delayed jobs, pauses, rate limiters and sessions.

import { assert } from "../base/assert.ts";
import { JobCounter } from "../schema/job.ts";
import { Delivery } from "./delivery.ts";
import { ENDS } from "./jobs/ends.ts";
import { JobState, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import { ResumedTubes } from "./tubes/resumed-tubes.ts";
import type { Tube } from "./tubes/tube.ts";
import { type Session, Waiting } from "./waiting/session.ts";
import { inMargin, isOver } from "./waiting/session-timers.ts";

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
