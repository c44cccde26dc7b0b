// Converts the buckets of the C generator's output into a histogram.
import { Latency } from "./latency.ts";

/**
 * Buckets are [lowest nanosecond, count], 2^subBits of them to each power of two; each counts at
 * its middle, which is within 0.4 % of what was measured.
 */
export function latencyOfBuckets(
  buckets: readonly (readonly [lowNs: number, count: number])[],
  maxMicros: number,
  subBits: number,
): Latency {
  const latency = new Latency();
  for (const [lowNs, count] of buckets) {
    const widthNs = Math.max(1, 2 ** (Math.floor(Math.log2(Math.max(lowNs, 1))) - subBits));
    latency.record(Math.min((lowNs + widthNs / 2) / 1000, maxMicros), count);
  }
  return latency;
}
