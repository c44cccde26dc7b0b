// The clock of all threads: milliseconds of the machine's monotonic clock, with a fraction.
//
// The module's `performance.now()` is cheap (the global of that name is a getter), but it counts
// from the start of its thread. This module therefore measures the offset to the machine's clock
// once. A thread that is preempted between its two clock readings would keep the error for good, so
// the best of several measurements counts.

import { performance } from "node:perf_hooks";
import { assert } from "../base/assert.ts";

/** Maximum number of measurements. */
const LOOKS_MAX = 50;
/** An offset with at most this uncertainty is good enough, ms. */
const GOOD_ENOUGH_MS = 0.005;

/**
 * Returns the offset from the thread's clock to the machine's, in ms. One measurement reads the
 * machine's clock before and after the thread's; the offset is accurate to half of the time in
 * between. The shortest measurement counts.
 */
export function clockOffsetMs(machineMs: () => number, threadMs: () => number): number {
  let offsetMs = 0;
  let shortestMs = Number.POSITIVE_INFINITY;
  for (let looks = 0; looks < LOOKS_MAX && shortestMs > GOOD_ENOUGH_MS; looks++) {
    const beforeMs = machineMs();
    const nowMs = threadMs();
    const afterMs = machineMs();
    if (afterMs - beforeMs >= shortestMs) continue;
    shortestMs = afterMs - beforeMs;
    offsetMs = (beforeMs + afterMs) / 2 - nowMs;
  }
  return offsetMs;
}

const offsetMs = clockOffsetMs(
  () => Number(process.hrtime.bigint()) / 1e6,
  () => performance.now(),
);

/** Returns monotonic ms, the same in every thread of the process. */
export function monotonicMs(): number {
  return performance.now() + offsetMs;
}

/** Returns wall clock minus monotonic clock now, in ms. */
export function wallOffsetMs(): number {
  return -clockOffsetMs(monotonicMs, Date.now);
}

// The end of a group server's lease: one int32 of monotonic ms, which wraps. The group's thread
// writes it; shards read it once a turn.

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
