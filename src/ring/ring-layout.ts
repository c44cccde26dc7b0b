// The layout of a ring: a SharedArrayBuffer with two positions and a power of two of data bytes.
//
//   offset 0     int32  tail: bytes published so far; written by the writer, read by the reader
//   offset 64    int32  head: bytes released so far; written by the reader, read by the writer
//   offset 68    int32  wanted: 1 while the writer waits for room; writer sets, reader clears
//   offset 128   data
//
// Positions only grow, and wrap at 2^32; a position masked by the capacity is an offset into the
// data. The two positions have cache lines of their own. A message starts at a multiple of 8 and
// never wraps around the end. Its first int32 is its length in bytes, a multiple of 8. A negative
// length is padding of that many bytes, which the reader skips.

import { assert } from "../base/assert.ts";

export const TAIL_WORD = 0;
export const HEAD_WORD = 16;
export const WANTED_WORD = 17;
export const DATA_OFFSET = 128;
/** Minimum capacity in bytes: the largest header and some payload must fit into a quarter. */
export const RING_BYTES_MIN = 4096;

/** Returns a new ring of `capacity` data bytes, a power of two. */
export function createRing(capacity: number): SharedArrayBuffer {
  if (capacity < RING_BYTES_MIN || (capacity & (capacity - 1)) !== 0) {
    throw new RangeError(`ring capacity ${capacity} is not a power of two of at least ${RING_BYTES_MIN}`);
  }
  return new SharedArrayBuffer(DATA_OFFSET + capacity);
}

/**
 * Returns the maximum message size: a quarter of the ring, so that a message and its padding always
 * fit.
 */
export function messageBytesMax(capacity: number): number {
  assert(capacity >= RING_BYTES_MIN, "a ring has its minimum capacity");
  return capacity >> 2;
}
