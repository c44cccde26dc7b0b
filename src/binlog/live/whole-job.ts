// Appends a complete job to a log, in several records if it is too big for one; also appends
// settings and batches.

import { assert } from "../../base/assert.ts";
import { asciiBytes, copyBytes, Memory } from "../../base/bytes.ts";
import {
  encodeBatch,
  encodeTallied,
  encodeTally,
  type LoggedBatch,
  type Tally,
} from "../../message/flow-record.ts";
import {
  bodyBytesOf,
  encodePieceHead,
  encodeSetting,
  MAX_PIECE_BYTES,
  MAX_RECORD_BYTES,
  RECORD_ID_AT,
  recordHeadBytes,
} from "../../message/record.ts";
import type { BatchFacts } from "../../schema/batch.ts";

/** A log that takes records. */
interface Appendable {
  appendOwned(bytes: Uint8Array, start: number, length: number): void;
}

const piece: Memory = Memory.ofSize(MAX_RECORD_BYTES);

/** Returns the length of a PUT record followed by its whole body. */
export function wholeJobBytes(view: DataView, at: number): number {
  return recordHeadBytes(view, at) + bodyBytesOf(view, at);
}

/** Appends the PUT at `at`, which its whole body follows. */
export function appendWholeJob(storage: Appendable, { bytes, view }: Memory, at: number): void {
  const total = wholeJobBytes(view, at);
  assert(at + total <= bytes.length, "a job lies in its memory");
  const first = Math.min(total, MAX_RECORD_BYTES);
  assert(first >= recordHeadBytes(view, at), "the head of a job fits into a record");
  storage.appendOwned(bytes, at, first);
  const bodyAt = at + total - bodyBytesOf(view, at);
  const id = view.getFloat64(at + RECORD_ID_AT, true);
  for (let done = first; done < total; done += MAX_PIECE_BYTES) {
    const length = Math.min(MAX_PIECE_BYTES, total - done);
    assert(at + done >= bodyAt, "a piece begins in the body");
    const partAt = encodePieceHead(piece.view, 0, id, at + done - bodyAt);
    copyBytes(piece.bytes, partAt, bytes, at + done, length);
    storage.appendOwned(piece.bytes, 0, partAt + length);
  }
}

/** Appends the settings of a tube pattern. */
export function appendSetting(storage: Appendable, pattern: string, text: string): void {
  const setting = settingRecord(pattern, text);
  storage.appendOwned(setting, 0, setting.length);
}

/** Returns a SETTING. It is valid until the next call of a function here. */
export function settingRecord(pattern: string, text: string): Uint8Array {
  const length = encodeSetting(piece, 0, asciiBytes(pattern), asciiBytes(text));
  assert(length <= MAX_RECORD_BYTES, "a SETTING is no longer than a record");
  return piece.bytes.subarray(0, length);
}

/** Returns a BATCH, as valid as a SETTING of `settingRecord`. */
export function batchRecord(facts: BatchFacts): Uint8Array {
  return piece.bytes.subarray(0, encodeBatch(piece, 0, facts, 0));
}

/** Returns a TALLY that deletes no job, as valid as a SETTING of `settingRecord`. */
export function tallyRecord({ number, shard, done, failed }: Tally): Uint8Array {
  const length = encodeTally(piece.view, 0, 0, number, shard);
  encodeTallied(piece.view, 0, done, failed);
  return piece.bytes.subarray(0, length);
}

/** Appends the state of a batch and its tallies. */
export function appendBatch(storage: Appendable, { facts, tallies }: LoggedBatch): void {
  const batch = batchRecord(facts);
  storage.appendOwned(batch, 0, batch.length);
  for (const each of tallies) {
    const tally = tallyRecord(each);
    storage.appendOwned(tally, 0, tally.length);
  }
}
