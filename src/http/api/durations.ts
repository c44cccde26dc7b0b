// Durations in requests: seconds, to the millisecond.

import { Problem } from "./problem.ts";

/** Rounds seconds to milliseconds. Rounded to 0, a duration would silently mean none. */
export function toMilliseconds(seconds: number, field: string): number {
  if (seconds > 0 && seconds < 0.001)
    throw new Problem("bad-request", `"/${field}" must be 0 or at least 0.001, not ${seconds}.`);
  return Number(seconds.toFixed(3));
}
