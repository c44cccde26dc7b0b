// What each shard counts of a batch: one row per count. From the rows follow the report to the
// batch's home (message/transfer.ts) and the sum over all shards.
//
// A new count is a row at the end, its field in `BatchRow` (engine/state/batch-table.ts), which the
// types demand, and the place that counts.

import { eachOf } from "./names.ts";

/** In the order of the report. */
export const BATCH_COUNTS = [
  /** Members that have not ended. */
  "open",
  /** Members that died, and are still here. */
  "dead",
  /** Members and waiting jobs in transit to another shard. */
  "moving",
  /** Members that are gone from this shard, by how they ended. */
  "done",
  "failed",
  /** Open members that are buried. */
  "buried",
  /** Jobs that wait for the batch. */
  "waitingJobs",
  /** Members and waiting jobs that have come from other shards. */
  "arrivals",
] as const;

export type BatchCounts = Record<(typeof BATCH_COUNTS)[number], number>;

export const emptyBatchCounts = (): BatchCounts => eachOf(BATCH_COUNTS, () => 0);

/** Adds the counts of a shard to `sum`. */
export function addBatchCounts(counts: Readonly<BatchCounts>, sum: BatchCounts): void {
  for (const name of BATCH_COUNTS) sum[name] += counts[name];
}
