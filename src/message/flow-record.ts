// The records of batches, in a fixed little-endian layout.
//
//   TALLY                                       BATCH
//   0  u8   kind                                0  u8   kind
//   1  u8   zero                                1  u8   name bytes
//   2  u16  shard                               2  u8   BatchState; 0 ends the batch
//   4  u32  zero                                3  u8   BatchOutcome
//   8  f64  id of a job; 0 in a copy            4  u32  zero
//   16 f64  number of the batch                 8  f64  number
//   24 u32  members done on this shard          16 f64  openedAtMs    (wall clock)
//   28 u32  members failed on this shard        24 f64  completeAtMs  (wall clock; 0 before)
//   32                                          32 f64  keepMs
//                                               40 u32  members done, of a complete batch
//                                               44 u32  members failed, of a complete batch
//                                               48 name
//
// A TALLY deletes the job as a DELETE does, in the same record that counts it. The latest TALLY of
// a batch and shard applies, and the latest BATCH of a number. No TALLY matters once its batch is
// complete.

import type { Memory } from "../base/bytes.ts";
import type { BatchFacts, BatchOutcome, BatchState } from "../schema/batch.ts";
import { RecordKind } from "./record.ts";

export const TALLY_BYTES = 32;
export const BATCH_FIXED_BYTES = 48;

/** The contents of a TALLY, besides the job. */
export interface Tally {
  readonly number: number;
  readonly shard: number;
  readonly done: number;
  readonly failed: number;
}

/** A batch of the log, in wall-clock times. */
export interface LoggedBatch {
  readonly facts: BatchFacts;
  readonly tallies: readonly Tally[];
}

/** Writes a TALLY at `at`, without its counts. Returns its length. */
export function encodeTally(view: DataView, at: number, id: number, number: number, shard: number): number {
  view.setUint32(at, RecordKind.tally | (shard << 16), true);
  view.setUint32(at + 4, 0, true);
  view.setFloat64(at + 8, id, true);
  view.setFloat64(at + 16, number, true);
  return TALLY_BYTES;
}

export function encodeTallied(view: DataView, at: number, done: number, failed: number): void {
  view.setUint32(at + 24, done, true);
  view.setUint32(at + 28, failed, true);
}

export function decodeTally(view: DataView, at: number): Tally {
  return {
    shard: view.getUint16(at + 2, true),
    number: view.getFloat64(at + 16, true),
    done: view.getUint32(at + 24, true),
    failed: view.getUint32(at + 28, true),
  };
}

/** Removes the job from the TALLY at `at`, so that a copy of it deletes no job. */
export function forgetTallied(view: DataView, at: number): void {
  view.setFloat64(at + 8, 0, true);
}

/** Writes a BATCH at `at`; `wallOffsetMs` is wall clock minus monotonic clock. */
export function encodeBatch(
  { bytes, view }: Memory,
  at: number,
  batch: Readonly<BatchFacts>,
  wallOffsetMs: number,
): number {
  const { name, completeAtMs } = batch;
  view.setUint32(
    at,
    RecordKind.batch | (name.length << 8) | (batch.state << 16) | (batch.outcome << 24),
    true,
  );
  view.setUint32(at + 4, 0, true);
  view.setFloat64(at + 8, batch.number, true);
  view.setFloat64(at + 16, batch.openedAtMs + wallOffsetMs, true);
  view.setFloat64(at + 24, completeAtMs === 0 ? 0 : completeAtMs + wallOffsetMs, true);
  view.setFloat64(at + 32, batch.keepMs, true);
  view.setUint32(at + 40, batch.allDone, true);
  view.setUint32(at + 44, batch.allFailed, true);
  for (let i = 0; i < name.length; i++) bytes[at + BATCH_FIXED_BYTES + i] = name.charCodeAt(i);
  return BATCH_FIXED_BYTES + name.length;
}

/** Decodes a BATCH, in wall-clock times. */
export function decodeBatch({ bytes, view }: Memory, at: number): BatchFacts {
  const end = at + BATCH_FIXED_BYTES + bytes[at + 1]!;
  return {
    number: view.getFloat64(at + 8, true),
    name: String.fromCharCode(...bytes.subarray(at + BATCH_FIXED_BYTES, end)),
    state: bytes[at + 2] as BatchState,
    outcome: bytes[at + 3] as BatchOutcome,
    openedAtMs: view.getFloat64(at + 16, true),
    completeAtMs: view.getFloat64(at + 24, true),
    keepMs: view.getFloat64(at + 32, true),
    allDone: view.getUint32(at + 40, true),
    allFailed: view.getUint32(at + 44, true),
  };
}
