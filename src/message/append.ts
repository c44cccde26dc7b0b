// Messages from a shard to the binlog: one record each, in a ring.
//
//   offset  0  int32    length of the message (set by the ring)
//   offset  4  uint32   bytes of the record
//   offset  8  float64  number of the record, counted by its shard from 1 on
//   offset 16  record   see record.ts

import type { MessageSource } from "../ring/message-source.ts";
import type { RingWriter } from "../ring/ring-writer.ts";

export const APPEND_HEADER_BYTES = 16;

/** Fills in the header of the message claimed at `offset`. Returns the position of its record. */
export function writeAppendHeader(
  ring: RingWriter,
  offset: number,
  recordBytes: number,
  number: number,
): number {
  ring.uint32[(offset >> 2) + 1] = recordBytes;
  ring.float64[(offset >> 3) + 1] = number;
  return offset + APPEND_HEADER_BYTES;
}

/** Returns the length of the record in the message at `offset`. */
export function appendedBytes(source: MessageSource, offset: number): number {
  return source.uint32[(offset >> 2) + 1]!;
}

/** Returns the number of the record in the message at `offset`. */
export function appendedNumber(source: MessageSource, offset: number): number {
  return source.float64[(offset >> 3) + 1]!;
}
