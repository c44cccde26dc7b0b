// Where a thread's loop gives way to whoever drives it: the thread itself, or a simulation that decides who goes on.
//
// A loop is a row of actions; `next` does them in order and returns at the next point. A thread answers its sleeps with
// Atomics, a simulation answers every point with a draw. (Generators read better, but cost 70 ns a turn, 4 % of the CPU
// time with 50 connections unpipelined; this costs nothing.)

import { monotonicMs } from "../ring/monotonic-clock.ts";

export const Point = {
  /** Between two actions, where a thread may lose its core for any time: see `Surroundings.isHeldUp`. */
  HeldUp: 0,
  /** A turn is over. */
  Turned: 1,
  /** It has announced its sleep, looked once more and found nothing: goes on when it is rung, or has something due. */
  Asleep: 2,
  /** It has nothing to do any more: the log takes no records, and the process is about to end. */
  Ended: 3,
} as const;
export type Point = (typeof Point)[keyof typeof Point];

/** What a loop knows of the thread around it. */
export interface Surroundings {
  /** Monotonic clock, ms. */
  nowMs(): number;
  /** Whether the loop is to give way after an action, in the middle of a turn: only in a simulation, at random. */
  isHeldUp(): boolean;
}

/** A thread of the process: the kernel holds it up without asking. */
export const REAL_THREAD: Surroundings = { nowMs: monotonicMs, isHeldUp: () => false };
