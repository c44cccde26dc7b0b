// The end of a group server's lease: one int32 of monotonic ms, which wraps. The group's thread
// writes it; shards read it once a turn.

import { assert } from "../base/assert.ts";

export class LeaseWord {
  readonly #words: Int32Array;
  readonly #at: number;

  /** Uses `words[at]`. */
  constructor(words: Int32Array, at: number) {
    assert(at >= 0 && at < words.length, "a lease word lies in its memory");
    this.#words = words;
    this.#at = at;
  }

  publish(untilMs: number): void {
    assert(Number.isFinite(untilMs), "a lease ends");
    Atomics.store(this.#words, this.#at, Math.floor(untilMs) | 0);
  }

  isOver(nowMs: number): boolean {
    return ((Atomics.load(this.#words, this.#at) - nowMs) | 0) <= 0;
  }
}

/**
 * How far a correction may move the wall clock without counting as a suspension of the machine, ms.
 */
const WALL_SLACK_MS = 250;

/**
 * The lease by two clocks. The monotonic clock stops while the machine is suspended. The wall clock
 * jumps on resume, which reveals that the lease has expired.
 */
export class Lease {
  readonly #until: LeaseWord;
  readonly #untilWall: LeaseWord;
  readonly #wallMs: () => number;

  /** Stores the two ends in `words[at]` and `words[wallAt]`. */
  constructor(words: Int32Array, at: number, wallAt: number, wallMs: () => number = Date.now) {
    assert(at !== wallAt, "each end of a lease has its own word");
    this.#until = new LeaseWord(words, at);
    this.#untilWall = new LeaseWord(words, wallAt);
    this.#wallMs = wallMs;
  }

  publish(untilMs: number, untilWallMs: number): void {
    this.#untilWall.publish(untilWallMs);
    this.#until.publish(untilMs);
  }

  /** Returns whether the lease is over by either clock. `nowMs` is monotonic time. */
  isOver(nowMs: number): boolean {
    return this.#until.isOver(nowMs) || this.#untilWall.isOver(this.#wallMs() - WALL_SLACK_MS);
  }
}

/**
 * Returns whether the wall clock advanced while the monotonic clock stood still. `offsetMs` and
 * `beforeMs` say how far the wall clock is ahead, now and before.
 */
export function hasPaused(offsetMs: number, beforeMs: number): boolean {
  return offsetMs - beforeMs > WALL_SLACK_MS;
}
