// A batch of a group: the records of one write of the binlog, with its place in the chain of all
// batches. In the log it is a record (LINK) before its frames. It goes to the shared log as the
// same bytes.
//
//   0   u8   kind of record, 20             32  f64  tag: random, a safe integer
//   1   u8   version, 1                     40  f64  sequence, which its frames continue
//   2   u8   1 DATA, 2 LEAD, 3 YIELD        48  f64  highest id lent
//   3   u8   zero                           56  u32  number of its frames
//   4   u32  number of the binlog segment   60  u32  bytes of those frames
//   8   u32  epoch                          64  u32  node that wrote it
//   12  u32  oldest segment that counts     68  u32  earlier batches not known to be acknowledged
//   16  f64  n: 1, 2, 3 … over all epochs   72  u32  message of the shared log, see `message`
//   24  f64  tag of batch n-1               76  u32  CRC-32 of the header and the frames
//                                           80  frames, sealed with their writer's salt
//
// Two batches may claim the same place. The place belongs to the first one in the shared log that
// names the tag of the last valid batch. Every reader reaches the same conclusion, so a batch can
// be trusted without trusting the server that delivered it.

import { crc32 } from "node:zlib";
import type { Memory } from "../base/bytes.ts";

export const LINK_RECORD_KIND = 20;
export const LOG_BATCH_VERSION = 1;
export const LOG_BATCH_HEADER_BYTES = 80;
/** Limit of a batch in a group, so that several fit into one message of a log server. */
export const LOG_BATCH_BYTES_MAX: number = 256 * 1024;

export const LogBatchKind = {
  /** Records. */
  data: 1,
  /** A new primary takes over; its epoch is one more than that of the batch before. */
  lead: 2,
  /** The primary steps down, so its successor need not wait. */
  yield: 3,
} as const;
export type LogBatchKind = (typeof LogBatchKind)[keyof typeof LogBatchKind];

export interface LogBatchHeader {
  kind: LogBatchKind;
  epoch: number;
  segment: number;
  n: number;
  previousTag: number;
  tag: number;
  /** The sequence of the LINK record. */
  sequence: number;
  idsLent: number;
  frames: number;
  bodyBytes: number;
  node: number;
  /** The oldest segment that still counts. */
  oldest: number;
  /**
   * How many of the batches n-1, n-2 … were not known to be acknowledged when this one was written.
   */
  unacknowledged: number;
  /**
   * The lower 32 bits of a sequence in the shared log: the last message known to be valid when this
   * batch was written. A restarted node continues reading there. 0 if unknown.
   */
  message: number;
}

/** The last batch of a chain, which the next one follows. */
export interface ChainPlace {
  epoch: number;
  n: number;
  tag: number;
}

/** Writes the header without the checksum, which `sealLogBatch` adds. */
export function encodeLogBatchHeader({ view }: Memory, at: number, header: LogBatchHeader): void {
  view.setUint32(at, LINK_RECORD_KIND | (LOG_BATCH_VERSION << 8) | (header.kind << 16), true);
  view.setUint32(at + 4, header.segment, true);
  view.setUint32(at + 8, header.epoch, true);
  view.setUint32(at + 12, header.oldest, true);
  view.setFloat64(at + 16, header.n, true);
  view.setFloat64(at + 24, header.previousTag, true);
  view.setFloat64(at + 32, header.tag, true);
  view.setFloat64(at + 40, header.sequence, true);
  view.setFloat64(at + 48, header.idsLent, true);
  view.setUint32(at + 56, header.frames, true);
  view.setUint32(at + 60, header.bodyBytes, true);
  view.setUint32(at + 64, header.node, true);
  view.setUint32(at + 68, Math.min(header.unacknowledged, 0xffff_ffff), true);
  view.setUint32(at + 72, header.message >>> 0, true);
}

/** Adds the checksum to a batch whose header and frames are written. */
export function sealLogBatch({ bytes, view }: Memory, at: number): void {
  view.setUint32(at + CHECKSUM_AT, checksumOf(bytes, at, bodyBytesAt(view, at)), true);
}

const CHECKSUM_AT = 76;

const bodyBytesAt = (view: DataView, at: number): number => view.getUint32(at + 60, true);

function checksumOf(bytes: Uint8Array, at: number, bodyBytes: number): number {
  const head = crc32(bytes.subarray(at, at + CHECKSUM_AT));
  return crc32(bytes.subarray(at + LOG_BATCH_HEADER_BYTES, at + LOG_BATCH_HEADER_BYTES + bodyBytes), head);
}

export function decodeLogBatchHeader(view: DataView, at: number): LogBatchHeader {
  return {
    kind: view.getUint8(at + 2) as LogBatchKind,
    segment: view.getUint32(at + 4, true),
    epoch: view.getUint32(at + 8, true),
    n: view.getFloat64(at + 16, true),
    previousTag: view.getFloat64(at + 24, true),
    tag: view.getFloat64(at + 32, true),
    sequence: view.getFloat64(at + 40, true),
    idsLent: view.getFloat64(at + 48, true),
    frames: view.getUint32(at + 56, true),
    bodyBytes: bodyBytesAt(view, at),
    node: view.getUint32(at + 64, true),
    oldest: view.getUint32(at + 12, true),
    unacknowledged: view.getUint32(at + 68, true),
    message: view.getUint32(at + 72, true),
  };
}

/** A batch in a message of the shared log. */
export interface LogBatch {
  header: LogBatchHeader;
  /** Header and frames. */
  bytes: Uint8Array;
}

/**
 * Returns whether a message of the shared log claims to contain batches. Other messages are
 * ignored.
 */
export function hasLogBatches(message: Uint8Array): boolean {
  return message.length >= LOG_BATCH_HEADER_BYTES && message[0] === LINK_RECORD_KIND;
}

/**
 * Returns the batches of a message. Undefined unless it consists of complete, valid batches only.
 */
export function logBatchesOf(message: Uint8Array): LogBatch[] | undefined {
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  const batches: LogBatch[] = [];
  for (let at = 0; at < message.length; ) {
    if (at + LOG_BATCH_HEADER_BYTES > message.length) return undefined;
    if (view.getUint8(at) !== LINK_RECORD_KIND || view.getUint8(at + 1) !== LOG_BATCH_VERSION)
      return undefined;
    const end = at + LOG_BATCH_HEADER_BYTES + bodyBytesAt(view, at);
    if (end > message.length) return undefined;
    if (view.getUint32(at + CHECKSUM_AT, true) !== checksumOf(message, at, bodyBytesAt(view, at)))
      return undefined;
    batches.push({ header: decodeLogBatchHeader(view, at), bytes: message.subarray(at, end) });
    at = end;
  }
  return batches.length === 0 ? undefined : batches;
}
