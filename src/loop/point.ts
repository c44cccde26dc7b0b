// The points at which a thread's loop yields to its driver: the thread itself, or a simulation that
// decides which loop runs next.
//
// A loop is a sequence of actions; `next` performs them in order and returns at the next point. A
// thread answers a sleep with Atomics, a simulation answers every point with a random choice.
// (Generators would read better, but cost 70 ns a turn: 4 % of the CPU time with 50 connections
// that don't pipeline. This costs nothing.)

import { monotonicMs } from "../ring/monotonic-clock.ts";

export const Point = {
  /**
   * Between two actions, where a thread may lose its core for any time: see
   * `Surroundings.isHeldUp`.
   */
  HeldUp: 0,
  /** A turn is complete. */
  Turned: 1,
  /**
   * It has announced its sleep and found no work in a last check. It continues when it is rung or a
   * timer is due.
   */
  Asleep: 2,
  /** It has no more work: the log takes no records, and the process is about to end. */
  Ended: 3,
} as const;
export type Point = (typeof Point)[keyof typeof Point];

/** A loop's view of the thread around it. */
export interface Surroundings {
  /** Returns the monotonic clock, in ms. */
  nowMs(): number;
  /**
   * Returns whether the loop has to yield after an action, in the middle of a turn. Only a
   * simulation does that, at random.
   */
  isHeldUp(): boolean;
}

/** A real thread: the kernel preempts it without asking. */
export const REAL_THREAD: Surroundings = { nowMs: monotonicMs, isHeldUp: () => false };
