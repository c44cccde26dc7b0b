// A job in one piece of memory, appended to a log: cut into records where it is too big for one. And a setting.

import { asciiBytes, copyBytes } from "../../base/bytes.ts";
import { Memory } from "../../base/memory.ts";
import {
  bodyBytesOf,
  encodePieceHead,
  encodeSetting,
  MAX_PIECE_BYTES,
  MAX_RECORD_BYTES,
  RECORD_ID_AT,
  recordHeadBytes,
} from "../../message/record.ts";
import type { Storage } from "./storage.ts";

const piece: Memory = Memory.ofSize(MAX_RECORD_BYTES);

/** The length of a PUT record with its whole body behind it. */
export function wholeJobBytes(view: DataView, at: number): number {
  return recordHeadBytes(view, at) + bodyBytesOf(view, at);
}

/** Appends the PUT at `at`, whose whole body stands behind it. */
export function appendWholeJob(storage: Storage, { bytes, view }: Memory, at: number): void {
  const total = wholeJobBytes(view, at);
  const first = Math.min(total, MAX_RECORD_BYTES);
  storage.appendOwned(bytes, at, first);
  const bodyAt = at + total - bodyBytesOf(view, at);
  const id = view.getFloat64(at + RECORD_ID_AT, true);
  for (let done = first; done < total; done += MAX_PIECE_BYTES) {
    const length = Math.min(MAX_PIECE_BYTES, total - done);
    const partAt = encodePieceHead(piece.view, 0, id, at + done - bodyAt);
    copyBytes(piece.bytes, partAt, bytes, at + done, length);
    storage.appendOwned(piece.bytes, 0, partAt + length);
  }
}

/** Appends what is set for tubes of this pattern. */
export function appendSetting(storage: Storage, pattern: string, text: string): void {
  storage.appendOwned(piece.bytes, 0, encodeSetting(piece, 0, asciiBytes(pattern), asciiBytes(text)));
}
