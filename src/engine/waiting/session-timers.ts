// When each session has to be looked at: its reservations end, or its wait does.

import { DEADLINE_MARGIN_MS } from "../../protocol/limits.ts";
import { TimerHeap } from "../queues/timer-heap.ts";
import { type Session, Waiting } from "./session.ts";

/** A reservation ends when now > deadline (not at it); timers fire when now >= their time. */
const AFTER_DEADLINE_MS = 0.001;

/** Whether a reservation with this deadline is over. */
export function isOver(deadlineAtMs: number, nowMs: number): boolean {
  return deadlineAtMs + AFTER_DEADLINE_MS <= nowMs;
}

/** Whether the soonest reservation of the session is in its last second, or over. */
export function inMargin(session: Session, nowMs: number): boolean {
  return nowMs >= session.held.soonestMs - DEADLINE_MARGIN_MS;
}

export class SessionTimers {
  readonly #timers = new TimerHeap<Session>();

  /** When the first session is due, or Infinity. */
  get nextAtMs(): number {
    return this.#timers.nextAtMs;
  }

  /** The session that is due first. */
  get first(): Session | undefined {
    return this.#timers.first;
  }

  /** To be called when its reservations or its wait have changed. */
  set(session: Session): void {
    if (session.waiting === Waiting.No) {
      this.setForExpiry(session);
      return;
    }
    const marginAtMs = session.held.soonestMs - DEADLINE_MARGIN_MS;
    this.#timers.set(session.timer, Math.min(session.timeoutAtMs, marginAtMs));
  }

  /** From now on only the end of a reservation is of interest, also while it waits. */
  setForExpiry(session: Session): void {
    this.#timers.set(session.timer, session.held.soonestMs + AFTER_DEADLINE_MS);
  }

  clear(session: Session): void {
    this.#timers.set(session.timer, Number.POSITIVE_INFINITY);
  }
}
