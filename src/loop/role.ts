// What a thread does: be a shard, or the log. A role takes turns and never sleeps; its thread does, when it has nothing to do.

import type { Point } from "./point.ts";

/** One thread can have several: it takes a turn of each, asks each for room, and sleeps until the soonest is due. */
export interface Role {
  /** Goes on to the next point; a turn is over at `Point.Turned`. */
  next(): Point;
  /** When the last turn began, ms. */
  readonly begunAtMs: number;
  /** Messages that the last turn took. */
  readonly taken: number;
  /** Whether the last turn left something to do at once. */
  readonly hasMore: boolean;
  /** Whether there is something to do now, besides what is due. */
  readonly hasWork: boolean;
  /** When something is due; Infinity for nothing. */
  readonly nextDueAtMs: number;
  /** Asks to be rung where it is room in a ring that work waits for. To be called before a sleep, and `hasWork` after it. */
  wantRoom(): void;
}

/** A role that lives in the thread of an acceptor. */
export interface ColocatedRole extends Role {
  /** Whether it has given way in the middle of a turn. */
  readonly isInTurn: boolean;
}

/** A shard that lives in the thread of an acceptor. */
export interface ResidentShard extends ColocatedRole {
  /** Whether clients wait for what it has to do now: then it may have several turns in a row. */
  readonly hasCommands: boolean;
}

/** A log that lives in the thread of shards, as they see it. */
export interface ColocatedLogRole {
  /** Takes a whole turn in the middle of theirs, if there is something that it can do now. */
  turn(nowMs: number): boolean;
  readonly nextDueAtMs: number;
}
