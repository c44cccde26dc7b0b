// The log in the thread of acceptors and shards: it has its turn after theirs, so that a reply waits for the disk and for no
// other thread. Its own work (room, compaction) goes on while there is some, a slice in each pass of that thread.

import { Point } from "../loop/point.ts";
import type { ColocatedRole } from "../loop/role.ts";
import type { BinlogLoop } from "./binlog-loop.ts";

export class ColocatedLog implements ColocatedRole {
  readonly #role: BinlogLoop;
  readonly #onEnded: () => void;
  #isInTurn = false;
  #hasEnded = false;

  /** `onEnded` is called once: it is told to stop and all is taken, or it has failed. */
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
   * A whole turn for a shard of this thread that can't go on in the middle of a command before the log has taken what it has.
   * False if there is nothing that it can do now: see `nextDueAtMs`.
   */
  turn(nowMs: number): boolean {
    if (this.#hasEnded || !(this.#isInTurn || this.hasWork || this.nextDueAtMs <= nowMs)) return false;
    while (this.next() === Point.HeldUp);
    return true;
  }
}
