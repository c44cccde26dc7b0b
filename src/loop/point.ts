// Where a thread's loop gives way to whoever drives it: the thread itself, or a simulation that decides who goes on.
//
// A loop is a generator made once. Its body is the code that runs, in order; a thread answers its sleeps with Atomics, a
// simulation answers every point with a draw. A turn of a shard ends with one point, for about 20 ns.

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

/** A loop under way. */
export type Points = Generator<Point, never, void>;

/** What a loop knows of the thread around it. */
export interface Surroundings {
  /** Monotonic clock, ms. */
  nowMs(): number;
  /** Whether the loop is to give way here, in the middle of a turn: only in a simulation, at random. */
  isHeldUp(): boolean;
}

/** A thread of the process: the kernel holds it up without asking. */
export const REAL_THREAD: Surroundings = { nowMs: monotonicMs, isHeldUp: () => false };
