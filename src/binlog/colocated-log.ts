// Runs the log in the thread of acceptors and shards, after them, so that a reply waits for the
// disk but not for another thread. Its own work (making room, compaction) takes one slice in each
// pass of the thread.

import { assert } from "../base/assert.ts";
import { Point } from "../loop/point.ts";
import type { ColocatedRole } from "../loop/role.ts";
import type { BinlogLoop } from "./binlog-loop.ts";

export class ColocatedLog implements ColocatedRole {
  readonly #role: BinlogLoop;
  readonly #onEnded: () => void;
  #isInTurn = false;
  #hasEnded = false;

  /** Calls `onEnded` once: when the log was stopped and has taken everything, or has failed. */
  constructor(role: BinlogLoop, onEnded: () => void) {
    this.#role = role;
    this.#onEnded = onEnded;
  }

  get begunAtMs(): number {
    return this.#role.begunAtMs;
  }

  get taken(): number {
    return this.#role.taken;
  }

  get hasMore(): boolean {
    return this.#role.hasMore;
  }

  get hasWork(): boolean {
    return !this.#hasEnded && (this.#role.hasWork || this.#role.worksOn);
  }

  get isInTurn(): boolean {
    return this.#isInTurn;
  }

  get nextDueAtMs(): number {
    return this.#hasEnded ? Number.POSITIVE_INFINITY : this.#role.nextDueAtMs;
  }

  wantRoom(): void {
    this.#role.wantRoom();
  }

  next(): Point {
    if (this.#hasEnded) return Point.Ended;
    const point = this.#role.next();
    this.#isInTurn = point === Point.HeldUp;
    if (point !== Point.Ended) return point;
    this.#hasEnded = true;
    this.#onEnded();
    return point;
  }

  /**
   * Runs a whole turn for a shard of this thread that can't continue a command until the log takes
   * its records. Returns false if there is nothing to do now: see `nextDueAtMs`.
   */
  turn(nowMs: number): boolean {
    if (this.#hasEnded || !(this.#isInTurn || this.hasWork || this.nextDueAtMs <= nowMs)) return false;
    while (this.next() === Point.HeldUp);
    assert(!this.#isInTurn, "turns don't nest");
    return true;
  }
}
