// A batch of a group: what the binlog wrote with one write, with its place in the chain of all batches. It stands in the log as a
// record (BATCH) in front of its frames, and travels to the shared log as the same bytes.
//
//   0   u8   kind of record, 20             32  f64  tag: random, a safe integer
//   1   u8   version, 1                     40  f64  sequence of this record; the frames behind it follow it
//   2   u8   1 DATA, 2 LEAD, 3 YIELD        48  f64  ids are lent up to here
//   3   u8   zero                           56  u32  frames behind it
//   4   u32  number of the binlog segment   60  u32  bytes of those frames
//   8   u32  epoch                          64  u32  node that wrote it
//   12  u32  oldest segment that counts     68  u32  how many batches before it were not acknowledged then
//   16  f64  n: 1, 2, 3 … over all epochs   72  u32  message of the shared log, see `message`
//   24  f64  tag of batch n-1               76  u32  CRC-32 of all this and of the frames
//                                           80  frames, sealed with the salt of who wrote them
//
// Two batches may claim the same place. The first one in the shared log that names the tag of the last valid one has it; every
// reader comes to the same answer, so a batch can be believed without believing the server that carried it.

import { crc32 } from "node:zlib";
import type { Memory } from "../base/memory.ts";

export const BATCH_RECORD_KIND = 20;
export const BATCH_VERSION = 1;
export const BATCH_HEADER_BYTES = 80;
/** A batch is no longer than this in a group, so that several fit into what a log server takes at once. */
export const BATCH_BYTES_MAX: number = 256 * 1024;

export const BatchKind = {
  /** Records. */
  data: 1,
  /** Another node has the lead from here on; its epoch is one more than that of the batch before. */
  lead: 2,
  /** The node that has the lead gives it up: whoever is next need not wait. */
  yield: 3,
} as const;
export type BatchKind = (typeof BatchKind)[keyof typeof BatchKind];

export interface BatchHeader {
  kind: BatchKind;
  epoch: number;
  segment: number;
  n: number;
  previousTag: number;
  tag: number;
  /** Of the BATCH record. */
  sequence: number;
  idsLent: number;
  frames: number;
  bodyBytes: number;
  node: number;
  /** The oldest segment that counts. */
  oldest: number;
  /** Batches n-1, n-2 … that were not known to be acknowledged when this one was written. */
  unacknowledged: number;
  /**
   * The lower 32 bits of a sequence in the shared log: the last message that was known to be valid when this batch was written.
   * A node that starts again reads on from there. 0: not known.
   */
  message: number;
}

/** The last batch of a chain: what the next one follows. */
export interface ChainPlace {
  epoch: number;
  n: number;
  tag: number;
}

/** Writes all of it but the checksum: `sealBatch`. */
export function encodeBatchHeader({ view }: Memory, at: number, header: BatchHeader): void {
  view.setUint32(at, BATCH_RECORD_KIND | (BATCH_VERSION << 8) | (header.kind << 16), true);
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

/** Closes a batch whose header is written and whose frames stand behind it. */
export function sealBatch({ bytes, view }: Memory, at: number): void {
  view.setUint32(at + CHECKSUM_AT, checksumOf(bytes, at, bodyBytesAt(view, at)), true);
}

const CHECKSUM_AT = 76;

const bodyBytesAt = (view: DataView, at: number): number => view.getUint32(at + 60, true);

function checksumOf(bytes: Uint8Array, at: number, bodyBytes: number): number {
  const head = crc32(bytes.subarray(at, at + CHECKSUM_AT));
  return crc32(bytes.subarray(at + BATCH_HEADER_BYTES, at + BATCH_HEADER_BYTES + bodyBytes), head);
}

export function decodeBatchHeader(view: DataView, at: number): BatchHeader {
  return {
    kind: view.getUint8(at + 2) as BatchKind,
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
export interface Batch {
  header: BatchHeader;
  /** Header and frames. */
  bytes: Uint8Array;
}

/** Whether a message of the shared log is meant to be of batches: what else stands there is none of ours. */
export function isOfBatches(message: Uint8Array): boolean {
  return message.length >= BATCH_HEADER_BYTES && message[0] === BATCH_RECORD_KIND;
}

/** The batches of a message, one behind the other; undefined if it is not whole batches and nothing else. */
export function batchesOf(message: Uint8Array): Batch[] | undefined {
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  const batches: Batch[] = [];
  for (let at = 0; at < message.length; ) {
    if (at + BATCH_HEADER_BYTES > message.length) return undefined;
    if (view.getUint8(at) !== BATCH_RECORD_KIND || view.getUint8(at + 1) !== BATCH_VERSION) return undefined;
    const end = at + BATCH_HEADER_BYTES + bodyBytesAt(view, at);
    if (end > message.length) return undefined;
    if (view.getUint32(at + CHECKSUM_AT, true) !== checksumOf(message, at, bodyBytesAt(view, at)))
      return undefined;
    batches.push({ header: decodeBatchHeader(view, at), bytes: message.subarray(at, end) });
    at = end;
  }
  return batches.length === 0 ? undefined : batches;
}
