// The role of a thread: a shard or the log. A role takes turns and never sleeps; its thread sleeps
// when the role has no work.

import { monotonicMs } from "../ring/monotonic-clock.ts";

// The points at which a thread's loop yields to its driver: the thread itself, or a simulation that
// decides which loop runs next.
//
// A loop is a sequence of actions; `next` performs them in order and returns at the next point. A
// thread answers a sleep with Atomics, a simulation answers every point with a random choice.
// (Generators would read better, but cost 70 ns a turn: 4 % of the CPU time with 50 connections
// that don't pipeline. This costs nothing.)

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
   * simulation does that, at random; a real thread is preempted by the kernel, which does not ask.
   */
  isHeldUp?(): boolean;
}

export const REAL_THREAD: Surroundings = { nowMs: monotonicMs };

/**
 * A thread can have several roles: it runs a turn of each, asks each for room, and sleeps until the
 * earliest timer.
 */
export interface Role {
  /** Advances to the next point. A turn ends with `Point.Turned`. */
  next(): Point;
  /** When the last turn began, in ms. */
  readonly begunAtMs: number;
  /** The number of messages that the last turn took. */
  readonly taken: number;
  /** Whether the last turn left work to be done at once. */
  readonly hasMore: boolean;
  /** Whether there is work now, apart from timers. */
  readonly hasWork: boolean;
  /** When a timer is due; Infinity if there is none. */
  readonly nextDueAtMs: number;
  /**
   * Asks to be rung when a ring that work waits for has room. Call it before a sleep, and check
   * `hasWork` after it.
   */
  wantRoom(): void;
}

/** A role in the thread of an acceptor. */
export interface ColocatedRole extends Role {
  /** Whether it has yielded in the middle of a turn. */
  readonly isInTurn: boolean;
}

/** A shard in the thread of an acceptor. */
export interface ResidentShard extends ColocatedRole {
  /** Whether clients wait for its work. If so, it may get several turns in a row. */
  readonly hasCommands: boolean;
}

/** A log in the shards' thread, as the shards see it. */
export interface ColocatedLogRole {
  /**
   * Runs a whole turn in the middle of a shard's turn, if the log has work now. Returns whether it
   * did.
   */
  turn(nowMs: number): boolean;
  readonly nextDueAtMs: number;
}
