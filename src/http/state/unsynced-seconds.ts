// How long the disk of the log has kept the oldest record waiting.

import { Counter } from "../../message/topology.ts";
import { monotonicMs } from "../../ring/monotonic-clock.ts";

/** Of the counters of the binlog thread. While a sync hangs that thread says nothing else. */
export function unsyncedSeconds(counters: Float64Array): number {
  const sinceMs = counters[Counter.BinlogUnsyncedSinceMs]!;
  return sinceMs === 0 ? 0 : Math.max(0, monotonicMs() - sinceMs) / 1000;
}
