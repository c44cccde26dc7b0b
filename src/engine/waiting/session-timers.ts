// Timers of sessions: when a reservation or a wait ends.

import { assert, CHECKED } from "../../base/assert.ts";
import { DEADLINE_MARGIN_MS } from "../../protocol/limits.ts";
import { TimerHeap } from "../queues/timer-heap.ts";
import { type Session, Waiting } from "./session.ts";

/** A reservation ends when now > deadline (not at it); timers fire when now >= their time. */
const AFTER_DEADLINE_MS = 0.001;

/** Returns whether a reservation with this deadline is over. */
export function isOver(deadlineAtMs: number, nowMs: number): boolean {
  if (CHECKED) assert(!Number.isNaN(deadlineAtMs + nowMs), "a reservation ends at a time");
  return deadlineAtMs + AFTER_DEADLINE_MS <= nowMs;
}

/** Returns whether the session's soonest reservation is in its last second, or over. */
export function inMargin(session: Session, nowMs: number): boolean {
  return nowMs >= session.held.soonestMs - DEADLINE_MARGIN_MS;
}

export class SessionTimers {
  readonly heap: TimerHeap<Session> = new TimerHeap<Session>();

  /** Updates the timer; call after the session's reservations or wait have changed. */
  set(session: Session): void {
    if (session.waiting === Waiting.No) {
      this.setForTimeout(session);
      return;
    }
    const marginAtMs = session.held.soonestMs - DEADLINE_MARGIN_MS;
    this.heap.set(session.timer, Math.min(session.timeoutAtMs, marginAtMs));
  }

  /** Sets the timer to the end of a reservation only, even while the session waits. */
  setForTimeout(session: Session): void {
    if (CHECKED) assert(!Number.isNaN(session.held.soonestMs), "the next reservation ends at a time");
    this.heap.set(session.timer, session.held.soonestMs + AFTER_DEADLINE_MS);
  }

  clear(session: Session): void {
    assert(session.waiting === Waiting.No, "a session without a timer waits for nothing");
    this.heap.set(session.timer, Number.POSITIVE_INFINITY);
  }
}
