// Messages between shards about jobs that move from one to another. Shards have no rings to each
// other: an acceptor relays the messages (Carry in response.ts, Carried in request.ts), in the
// order of the log.
//
// A transfer is a number of jobs for one tube, at most TRANSFER_BYTES_MAX with their bodies, or a
// single job of any size. The sender assigns its number.
//
//   Begin     offset  0  uint8    Travel
//             offset  1  uint8    flags: TransferFlag
//             offset  2  uint16   length of the tube's name
//             offset  4  uint32   jobs
//             offset  8  float64  delayMs, if the flags include Delay
//             offset 16  the tube's name, then the jobs; of a job in pieces only its
//                        TRANSFER_JOB_HEADER_BYTES:
//                          uint32   length of the record, without the body if it goes in pieces
//                          uint32   number of the log file with its full record
//                          a PUT record (record.ts) with its body, without the tube's name, in
//                          monotonic times
//   Piece     the next bytes of the record of the only job
//   Credit    confirms a piece
//   Landed    offset  0  uint32   how many of the first jobs were taken
//             offset  4  uint8    why the rest were not: an Outcome

import { latin1 } from "../base/bytes.ts";
import type { Span } from "../protocol/request.ts";
import type { BatchFacts, BatchOutcome, BatchState } from "../schema/batch.ts";
import { BATCH_COUNTS, type BatchCounts } from "../schema/batch.ts";

export const TransferMessage = {
  Begin: 1,
  Piece: 2,
  Credit: 3,
  Landed: 4,
  // Of schedules: message/transfer.ts.
  ClaimName: 5,
  YieldName: 6,
  EndClaim: 7,
  /** About batches: see transfer.ts. */
  BatchState: 8,
  BatchReport: 9,
  BatchIdle: 10,
  /** Whether a shard has a job of a schedule, and the answer: see OverlapQuestions. */
  AskJobs: 11,
  TellJobs: 12,
} as const;
export type TransferMessage = (typeof TransferMessage)[keyof typeof TransferMessage];

export const TransferFlag = { AsReady: 1, Delay: 2, InPieces: 4 } as const;

export const TRANSFER_HEADER_BYTES = 16;
/** Bytes before each job of a transfer. */
export const TRANSFER_JOB_HEADER_BYTES = 8;
export const LANDED_BYTES = 5;
/** Limits of a transfer of several jobs. */
export const TRANSFER_JOBS_MAX = 256;
export const TRANSFER_BYTES_MAX = 32 * 1024;

/** The header of Begin, at the beginning of `view`. */
export const TransferView = {
  write(
    view: DataView,
    travel: number,
    flags: number,
    tubeBytes: number,
    jobs: number,
    delayMs: number,
  ): void {
    view.setUint8(0, travel);
    view.setUint8(1, flags);
    view.setUint16(2, tubeBytes, true);
    view.setUint32(4, jobs, true);
    view.setFloat64(8, delayMs, true);
  },
  travel: (view: DataView): number => view.getUint8(0),
  flags: (view: DataView): number => view.getUint8(1),
  tubeBytes: (view: DataView): number => view.getUint16(2, true),
  jobs: (view: DataView): number => view.getUint32(4, true),
  delayMs: (view: DataView): number => view.getFloat64(8, true),
};

/** The header of a job in Begin. */
export const TransferJobView = {
  write(view: DataView, at: number, recordBytes: number, file: number): void {
    view.setUint32(at, recordBytes, true);
    view.setUint32(at + 4, file, true);
  },
  recordBytes: (view: DataView, at: number): number => view.getUint32(at, true),
  file: (view: DataView, at: number): number => view.getUint32(at + 4, true),
};

/** Landed. */
export const LandedView = {
  write(view: DataView, at: number, taken: number, refusal: number): void {
    view.setUint32(at, taken, true);
    view.setUint8(at + 4, refusal);
  },
  taken: (view: DataView, at: number): number => view.getUint32(at, true),
  refusal: (view: DataView, at: number): number => view.getUint8(at + 4),
};

// Messages between shards about batches, relayed as those in transfer.ts are.
//
//   BatchState  from the home of a batch: its whole decision; asks for a report
//               offset  0  float64  number
//               offset  8  uint8    BatchState; uint8 BatchOutcome; uint16 bytes of the name
//               offset 16  float64  keepMs, openedAtMs, completeAtMs (monotonic), done, failed
//               offset 56  name
//   BatchReport to the home
//               offset  0  float64  number, then the BatchCounts in the order of BATCH_COUNTS
//   BatchIdle   to the home: the last member here has ended, so ask again
//               offset  0  float64  number

export const BATCH_STATE_BYTES = 56;
export const BATCH_REPORT_BYTES: number = 8 + 8 * BATCH_COUNTS.length;
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

export function batchNumberOf(view: DataView): number {
  return view.getFloat64(0, true);
}

/** Writes a report; `counts` is undefined if the shard doesn't know the batch. */
export function writeBatchReport(view: DataView, number: number, counts?: Readonly<BatchCounts>): void {
  view.setFloat64(0, number, true);
  for (const [at, name] of BATCH_COUNTS.entries()) view.setFloat64(8 + 8 * at, counts?.[name] ?? 0, true);
}

/** Adds the counts of a report to `sum`, and returns its arrivals. */
export function addBatchReport(view: DataView, sum: BatchCounts): number {
  for (const [at, name] of BATCH_COUNTS.entries()) sum[name] += view.getFloat64(8 + 8 * at, true);
  return view.getFloat64(8 + 8 * BATCH_COUNTS.indexOf("arrivals"), true);
}

// Messages between shards about the name of a schedule that one of them is about to set. An
// acceptor relays them (message/transfer.ts).
//
//   ClaimName   0  f64  number of the claim, greater than those of all claims begun before it
//               8  the name
//   YieldName   0  f64  id of the schedule of that name, or 0
//               8  f64  its next tick, or 0
//               16 its attributes (schedule-record.ts)
//   EndClaim    0  f64  version of the schedule that the claiming shard has set, or 0
//               8  the name
//
// The `transfer` of all three is the claiming shard's own number for the claim.

export const CLAIM_HEADER_BYTES = 8;
export const YIELD_HEADER_BYTES = 16;
export const END_CLAIM_HEADER_BYTES = 8;

const viewOf = ({ bytes, start, end }: Span): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset + start, end - start);

export const ClaimView = {
  claim: (body: Span): number => viewOf(body).getFloat64(0, true),
  name: ({ bytes, start, end }: Span): string => latin1(bytes, start + CLAIM_HEADER_BYTES, end),
};

export const YieldView = {
  id: (body: Span): number => viewOf(body).getFloat64(0, true),
  nextMs: (body: Span): number => viewOf(body).getFloat64(8, true),
};

export const EndClaimView = {
  version: (body: Span): number => viewOf(body).getFloat64(0, true),
  name: ({ bytes, start, end }: Span): string => latin1(bytes, start + END_CLAIM_HEADER_BYTES, end),
};
