// The one clock of all threads: milliseconds of the machine's monotonic clock, with a fraction.
//
// `performance.now()` is cheap, if it is the module's (the global of that name is a getter), but counts from its
// thread's start; the offset to the machine's clock is taken once. A thread that is held up between its looks at
// the two clocks would be wrong by that time for good, so the best of several looks counts.

import { performance } from "node:perf_hooks";

/** Looks at the clocks at most. */
const LOOKS_MAX = 50;
/** An offset known to this is good enough, ms. */
const GOOD_ENOUGH_MS = 0.005;

/**
 * What has to be added to the thread's clock to get the machine's, ms: known to half of the time between two
 * looks at the machine's clock with one at the thread's in between, for the shortest such time seen.
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

/** Monotonic ms, the same in every thread of the process. */
export function monotonicMs(): number {
  return performance.now() + offsetMs;
}
