// Time for which the oldest record has been waiting for the log's disk.

import { Counter } from "../../message/topology.ts";
import { monotonicMs } from "../../ring/monotonic-clock.ts";

/** Reads the binlog thread's counters, which work even while a sync blocks that thread. */
export function unsyncedSeconds(counters: Float64Array): number {
  const sinceMs = counters[Counter.BinlogUnsyncedSinceMs]!;
  return sinceMs === 0 ? 0 : Math.max(0, monotonicMs() - sinceMs) / 1000;
}
