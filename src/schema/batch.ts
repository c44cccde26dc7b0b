// A batch of jobs (docs/architecture/flows.md): the facts that all shards know, and what each shard
// counts of it.
//
// The counts are one row each. From the rows follow the report to the batch's home
// (message/transfer.ts) and the sum over all shards. A new count is a row at the end, its field in
// `BatchRow` (engine/state/batch-table.ts), which the types demand, and the place that counts.

import { eachOf } from "./names.ts";

/**
 * The states of a batch. Numbers in the log: never change them. Opening is not in the log: the
 * batch takes no members until all shards know it, since a member may move to any of them.
 */
export const BatchState = {
  ...{ Forgotten: 0, Open: 1, Committed: 2, Cancelled: 3, Complete: 4 },
  Opening: 5,
} as const;
export type BatchState = (typeof BatchState)[keyof typeof BatchState];

/** The outcome of a complete batch. Numbers in the log: never change them. */
export const BatchOutcome = { None: 0, Success: 1, Failure: 2, Cancelled: 3 } as const;
export type BatchOutcome = (typeof BatchOutcome)[keyof typeof BatchOutcome];

/** The facts that all shards know. The home of the batch decides them, and the log keeps them. */
export interface BatchFacts {
  /** A job id that no job has, so it is unique for ever. */
  readonly number: number;
  readonly name: string;
  state: BatchState;
  outcome: BatchOutcome;
  keepMs: number;
  /** Monotonic ms. */
  openedAtMs: number;
  /** When it became complete, monotonic ms; 0 before. */
  completeAtMs: number;
  /** Members by how they ended: 0 until the batch is complete, then final. */
  allDone: number;
  allFailed: number;
}

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
