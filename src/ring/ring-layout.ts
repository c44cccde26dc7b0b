// The shape of one ring: a SharedArrayBuffer with two positions and a power of two of data bytes.
//
//   offset 0     int32  tail: bytes published so far, written by the writer, read by the reader
//   offset 64    int32  head: bytes released so far, written by the reader, read by the writer
//   offset 68    int32  wanted: 1 while the writer waits for room; set by the writer, cleared by the reader
//   offset 128   data
//
// Positions only grow (and wrap at 2^32); a position masked by the capacity is an offset into the data. The
// two words stand on cache lines of their own. A message starts on a multiple of 8 and never wraps around the
// end: its first int32 is its length in bytes, a multiple of 8; a negative one is padding of that many bytes,
// to be skipped.

export const TAIL_WORD = 0;
export const HEAD_WORD = 16;
export const WANTED_WORD = 17;
export const DATA_OFFSET = 128;
/** The smallest legal capacity in bytes: the largest header and some payload must fit into a quarter. */
export const RING_BYTES_MIN = 4096;

/** A new ring of `capacity` data bytes, a power of two. */
export function createRing(capacity: number): SharedArrayBuffer {
  if (capacity < RING_BYTES_MIN || (capacity & (capacity - 1)) !== 0) {
    throw new RangeError(`ring capacity ${capacity} is no power of two of at least ${RING_BYTES_MIN}`);
  }
  return new SharedArrayBuffer(DATA_OFFSET + capacity);
}

/** The largest message of a ring: a quarter of it, so that padding can never make one impossible to place. */
export function messageBytesMax(capacity: number): number {
  return capacity >> 2;
}
