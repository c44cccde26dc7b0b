// Tells whether a wait that timed out was a lost wake-up or only a busy machine.
//
// A ringer records the end of its ring. A wait that began before that and timed out after it was
// certainly not woken, however late the threads are scheduled.

import { lastWait } from "./pauses.ts";

/** Sleep of an actor before it asks whether it was forgotten, ms. */
export const SLEEP_MS = 120;
/** The threads' clocks differ by some microseconds. */
const CLOCKS_DIFFER_MS = 1;

/**
 * Returns whether the thread's last sleep, one of SLEEP_MS, went on although a ring was over at
 * `rungAtMs` (monotonic ms).
 */
export const sleptThrough = (rungAtMs: number): boolean =>
  lastWait.result === "timed-out" && rungAtMs < lastWait.beganAtMs + SLEEP_MS - CLOCKS_DIFFER_MS;
