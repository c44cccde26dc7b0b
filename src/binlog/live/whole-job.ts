// A job in one piece of memory, appended to a log: cut into records where it is too big for one.

import {
  bodyBytesOf,
  encodePiece,
  MAX_PIECE_BYTES,
  MAX_RECORD_BYTES,
  PIECE_HEADER_BYTES,
  putRecordBytes,
  RECORD_ID_AT,
  tubeBytesOf,
} from "../../message/record.ts";
import type { Storage } from "./storage.ts";

const piece = new Uint8Array(MAX_RECORD_BYTES);
const pieceView = new DataView(piece.buffer);

/** The length of a PUT record with its whole body behind it. */
export function wholeJobBytes(view: DataView, at: number): number {
  return putRecordBytes(tubeBytesOf(view, at), bodyBytesOf(view, at));
}

/** Appends the PUT at `at`, whose whole body stands behind it. */
export function appendWholeJob(storage: Storage, bytes: Uint8Array, view: DataView, at: number): void {
  const total = wholeJobBytes(view, at);
  const first = Math.min(total, MAX_RECORD_BYTES);
  storage.appendOwned(bytes, at, first);
  const bodyAt = at + total - bodyBytesOf(view, at);
  const id = view.getFloat64(at + RECORD_ID_AT, true);
  for (let done = first; done < total; done += MAX_PIECE_BYTES) {
    const length = Math.min(MAX_PIECE_BYTES, total - done);
    encodePiece(pieceView, piece, 0, id, at + done - bodyAt, bytes, at + done, length);
    storage.appendOwned(piece, 0, PIECE_HEADER_BYTES + length);
  }
}
