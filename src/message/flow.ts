// Messages between shards about batches, relayed as those in transfer.ts are.
//
//   BatchState  from the home of a batch: its whole decision; asks for a report
//               offset  0  float64  number
//               offset  8  uint8    BatchState; uint8 BatchOutcome; uint16 bytes of the name
//               offset 16  float64  keepMs, openedAtMs, completeAtMs (monotonic), done, failed
//               offset 56  name
//   BatchReport to the home
//               offset  0  float64  number, then the BatchCounts in the order of COUNTS
//   BatchIdle   to the home: the last member here has ended, so ask again
//               offset  0  float64  number

import { latin1 } from "../base/bytes.ts";
import type { BatchCounts, BatchFacts, BatchOutcome, BatchState } from "../protocol/batch-facts.ts";

export const BATCH_STATE_BYTES = 56;
const COUNTS = [
  "open",
  "dead",
  "moving",
  "done",
  "failed",
  "buried",
  "waitingJobs",
  "arrivals",
] as const satisfies readonly (keyof BatchCounts)[];
export const BATCH_REPORT_BYTES: number = 8 + 8 * COUNTS.length;
export const BATCH_IDLE_BYTES = 8;

export function writeBatchState(view: DataView, batch: Readonly<BatchFacts>): void {
  const { name } = batch;
  view.setFloat64(0, batch.number, true);
  view.setUint8(8, batch.state);
  view.setUint8(9, batch.outcome);
  view.setUint16(10, name.length, true);
  view.setFloat64(16, batch.keepMs, true);
  view.setFloat64(24, batch.openedAtMs, true);
  view.setFloat64(32, batch.completeAtMs, true);
  view.setFloat64(40, batch.allDone, true);
  view.setFloat64(48, batch.allFailed, true);
  for (let i = 0; i < name.length; i++) view.setUint8(BATCH_STATE_BYTES + i, name.charCodeAt(i));
}

export function readBatchState(view: DataView): BatchFacts {
  const bytes = new Uint8Array(view.buffer, view.byteOffset + BATCH_STATE_BYTES, view.getUint16(10, true));
  return {
    number: view.getFloat64(0, true),
    name: latin1(bytes, 0, bytes.length),
    state: view.getUint8(8) as BatchState,
    outcome: view.getUint8(9) as BatchOutcome,
    keepMs: view.getFloat64(16, true),
    openedAtMs: view.getFloat64(24, true),
    completeAtMs: view.getFloat64(32, true),
    allDone: view.getFloat64(40, true),
    allFailed: view.getFloat64(48, true),
  };
}

/** Returns the number that each of the messages begins with. */
export function batchNumberOf(view: DataView): number {
  return view.getFloat64(0, true);
}

/** Writes a report; `counts` is undefined if the shard doesn't know the batch. */
export function writeBatchReport(view: DataView, number: number, counts?: Readonly<BatchCounts>): void {
  view.setFloat64(0, number, true);
  for (const [at, name] of COUNTS.entries()) view.setFloat64(8 + 8 * at, counts?.[name] ?? 0, true);
}

export function emptyBatchCounts(): BatchCounts {
  return { open: 0, dead: 0, moving: 0, done: 0, failed: 0, buried: 0, waitingJobs: 0, arrivals: 0 };
}

/** Adds the counts of a report to `sum`, and returns its arrivals. */
export function addBatchReport(view: DataView, sum: BatchCounts): number {
  for (const [at, name] of COUNTS.entries()) sum[name] += view.getFloat64(8 + 8 * at, true);
  return view.getFloat64(8 + 8 * COUNTS.indexOf("arrivals"), true);
}

/** Adds the counts of a shard to `sum`. */
export function addBatchCounts(counts: Readonly<BatchCounts>, sum: BatchCounts): void {
  for (const name of COUNTS) sum[name] += counts[name];
}
