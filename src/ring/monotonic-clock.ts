// The one clock of all threads: milliseconds of the machine's monotonic clock, with a fraction.
//
// `performance.now()` is cheap but counts from its thread's start; the offset to the machine's clock is taken once.

const offsetMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();

/** Monotonic ms, the same in every thread of the process. */
export function monotonicMs(): number {
  return performance.now() + offsetMs;
}
