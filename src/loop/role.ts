// The role of a thread: a shard or the log. A role takes turns and never sleeps; its thread sleeps
// when the role has no work.

import type { Point } from "./point.ts";

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
