// The clock of all threads: milliseconds of the machine's monotonic clock, with a fraction.
//
// The module's `performance.now()` is cheap (the global of that name is a getter), but it counts
// from the start of its thread. This module therefore measures the offset to the machine's clock
// once. A thread that is preempted between its two clock readings would keep the error for good, so
// the best of several measurements counts.

import { performance } from "node:perf_hooks";

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
