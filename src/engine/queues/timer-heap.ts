// A heap of timers, each with an owner: tubes and sessions that have to be checked at some time.

import { assert, CHECKED } from "../../base/assert.ts";
import type { EarliestTime } from "./earliest-time.ts";

/** A timer of an owner, in at most one heap. */
export class Timer<Owner> {
  readonly owner: Owner;
  /** Monotonic ms. */
  atMs: number = Number.POSITIVE_INFINITY;
  /** Position in its heap, or -1 while it is not set. */
  position = -1;

  constructor(owner: Owner) {
    this.owner = owner;
  }
}

/** Timers, the earliest first. */
export class TimerHeap<Owner> {
  /** When the earliest timer is due, or Infinity. Read by every command. */
  nextAtMs: number = Number.POSITIVE_INFINITY;
  readonly #timers: Timer<Owner>[] = [];
  readonly #earliest: EarliestTime | undefined;

  /** Keeps `earliest` up to date with `nextAtMs`. */
  constructor(earliest?: EarliestTime) {
    this.#earliest = earliest;
    earliest?.join(this);
  }

  /** The owner of the earliest timer. */
  get first(): Owner | undefined {
    return this.#timers[0]?.owner;
  }

  /** Sets, moves or (with Infinity) clears a timer. */
  set(timer: Timer<Owner>, atMs: number): void {
    if (CHECKED) assert(!Number.isNaN(atMs), "a timer is set to a time");
    if (timer.atMs === atMs) return;
    const before = timer.atMs;
    timer.atMs = atMs;
    if (atMs === Number.POSITIVE_INFINITY) this.#remove(timer);
    else if (timer.position < 0) this.#siftUp(this.#timers.length, timer);
    else if (atMs < before) this.#siftUp(timer.position, timer);
    else this.#siftDown(timer.position, timer);
    this.nextAtMs = this.#timers[0]?.atMs ?? Number.POSITIVE_INFINITY;
    if (CHECKED) assert(this.nextAtMs <= atMs, "no timer is due before the earliest");
    this.#earliest?.changed();
  }

  #remove(timer: Timer<Owner>): void {
    const position = timer.position;
    assert(this.#timers[position] === timer, "a timer leaves the heap that it is in");
    timer.position = -1;
    const last = this.#timers.pop()!;
    if (last === timer) return;
    if (position > 0 && last.atMs < this.#timers[(position - 1) >> 1]!.atMs) this.#siftUp(position, last);
    else this.#siftDown(position, last);
  }

  #siftUp(from: number, timer: Timer<Owner>): void {
    if (CHECKED) assert(from <= this.#timers.length, "a timer goes up from within the heap");
    let position = from;
    while (position > 0) {
      const parent = this.#timers[(position - 1) >> 1]!;
      if (parent.atMs <= timer.atMs) break;
      this.#timers[position] = parent;
      parent.position = position;
      position = (position - 1) >> 1;
    }
    this.#timers[position] = timer;
    timer.position = position;
  }

  #siftDown(from: number, timer: Timer<Owner>): void {
    assert(timer.atMs < Number.POSITIVE_INFINITY, "only a timer that is set is in the heap");
    let position = from;
    for (;;) {
      let child = position * 2 + 1;
      if (child >= this.#timers.length) break;
      if (child + 1 < this.#timers.length && this.#timers[child + 1]!.atMs < this.#timers[child]!.atMs)
        child++;
      const below = this.#timers[child]!;
      if (below.atMs >= timer.atMs) break;
      this.#timers[position] = below;
      below.position = position;
      position = child;
    }
    this.#timers[position] = timer;
    timer.position = position;
  }
}
