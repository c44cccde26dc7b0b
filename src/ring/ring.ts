// The memory that holds a message: a ring, or a copy of one message that had to wait.

import { assert, CHECKED } from "../base/assert.ts";

/** Views of the same bytes; a message's offset is a multiple of 8. */
export interface MessageSource {
  readonly bytes: Uint8Array;
  readonly int32: Int32Array;
  readonly uint32: Uint32Array;
  readonly float64: Float64Array;
}

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

// The reading end of a ring: takes messages in order, and releases them in batches.

/** Result of `next` when no message is published. */
export const EMPTY = -1;

/** For one reading thread. The bytes of a message stay valid until `release`. */
export class RingReader {
  readonly bytes: Uint8Array;
  readonly int32: Int32Array;
  readonly uint32: Uint32Array;
  readonly float64: Float64Array;
  readonly #words: Int32Array;
  readonly #capacity: number;
  #head: number;
  #released: number;
  /** The writer's position at the latest check. */
  #tail: number;

  constructor(ring: SharedArrayBuffer) {
    this.#capacity = ring.byteLength - DATA_OFFSET;
    assert((this.#capacity & (this.#capacity - 1)) === 0, "the reader's capacity is a power of two");
    this.#words = new Int32Array(ring, 0, DATA_OFFSET / 4);
    this.bytes = new Uint8Array(ring, DATA_OFFSET);
    this.int32 = new Int32Array(ring, DATA_OFFSET);
    this.uint32 = new Uint32Array(ring, DATA_OFFSET);
    this.float64 = new Float64Array(ring, DATA_OFFSET);
    this.#head = Atomics.load(this.#words, HEAD_WORD);
    assert(this.#head % 8 === 0, "a reader begins at a multiple of 8");
    this.#released = this.#head;
    this.#tail = this.#head;
  }

  /** Takes the next message; returns its offset, or EMPTY. */
  next(): number {
    for (;;) {
      if (this.#head === this.#tail) {
        this.#tail = Atomics.load(this.#words, TAIL_WORD);
        if (this.#head === this.#tail) return EMPTY;
      }
      const offset = this.#head & (this.#capacity - 1);
      const length = this.int32[offset >> 2]!;
      if (length > 0) {
        assert(length <= ((this.#tail - this.#head) | 0), "a message ends within what is published");
        this.#head = (this.#head + length) | 0;
        return offset;
      }
      assert(length < 0, "padding has a length");
      this.#head = (this.#head - length) | 0;
    }
  }

  /** Whether `next` would return a message. */
  get hasMessage(): boolean {
    return this.#head !== this.#tail || this.#head !== Atomics.load(this.#words, TAIL_WORD);
  }

  /** The share of the ring that is published and not yet taken, 0 to 1. */
  get fill(): number {
    const bytes = (Atomics.load(this.#words, TAIL_WORD) - this.#head) | 0;
    assert(bytes >= 0 && bytes <= this.#capacity, "what is published fits into the ring");
    return bytes / this.#capacity;
  }

  /**
   * Releases the room of all taken messages. Returns whether the writer waits for it and must be
   * rung.
   */
  release(): boolean {
    if (this.#head === this.#released) return false;
    assert(((this.#head - this.#released) | 0) > 0, "a reader's position only grows");
    this.#released = this.#head;
    Atomics.store(this.#words, HEAD_WORD, this.#head);
    if (Atomics.load(this.#words, WANTED_WORD) === 0) return false;
    Atomics.store(this.#words, WANTED_WORD, 0);
    return true;
  }
}

// The writing end of a ring: claims room, fills it, and publishes messages in batches.

/** Result of `claim` when there is no room now. */
export const FULL = -1;

/**
 * For one writing thread. Claimed messages stay invisible until `publish`, so a batch costs one
 * atomic store.
 */
export class RingWriter {
  readonly bytes: Uint8Array;
  readonly int32: Int32Array;
  readonly uint32: Uint32Array;
  readonly float64: Float64Array;
  readonly messageBytesMax: number;
  readonly #words: Int32Array;
  readonly #capacity: number;
  #tail: number;
  #published: number;
  /** The reader's position at the latest check; by now it may be further, never less. */
  #head: number;

  constructor(ring: SharedArrayBuffer) {
    this.#capacity = ring.byteLength - DATA_OFFSET;
    assert((this.#capacity & (this.#capacity - 1)) === 0, "the writer's capacity is a power of two");
    this.#words = new Int32Array(ring, 0, DATA_OFFSET / 4);
    this.bytes = new Uint8Array(ring, DATA_OFFSET);
    this.int32 = new Int32Array(ring, DATA_OFFSET);
    this.uint32 = new Uint32Array(ring, DATA_OFFSET);
    this.float64 = new Float64Array(ring, DATA_OFFSET);
    this.messageBytesMax = messageBytesMax(this.#capacity);
    this.#tail = Atomics.load(this.#words, TAIL_WORD);
    this.#published = this.#tail;
    this.#head = Atomics.load(this.#words, HEAD_WORD);
    assert(this.#tail % 8 === 0, "a writer begins at a multiple of 8");
  }

  /** Returns whether `claim` would find room for a message of `length` bytes. */
  hasRoom(length: number): boolean {
    const size = (length + 7) & ~7;
    const toEnd = this.#capacity - (this.#tail & (this.#capacity - 1));
    const needed = size > toEnd ? toEnd + size : size;
    if (needed <= this.#capacity - ((this.#tail - this.#head) | 0)) return true;
    this.#head = Atomics.load(this.#words, HEAD_WORD);
    assert(((this.#tail - this.#head) | 0) >= 0, "a reader never passes its writer");
    return needed <= this.#capacity - ((this.#tail - this.#head) | 0);
  }

  /**
   * Claims room for a message of `length` bytes, including its header, and writes its length.
   * Returns its offset, or FULL.
   */
  claim(length: number): number {
    assert(length > 0 && length <= this.messageBytesMax, "a message fits in a quarter of its ring");
    const size = (length + 7) & ~7;
    let offset = this.#tail & (this.#capacity - 1);
    const toEnd = this.#capacity - offset;
    const needed = size > toEnd ? toEnd + size : size;
    if (needed > this.#capacity - ((this.#tail - this.#head) | 0) && !this.hasRoom(length)) return FULL;
    if (size > toEnd) {
      this.int32[offset >> 2] = -toEnd;
      this.#tail = (this.#tail + toEnd) | 0;
      offset = 0;
    }
    if (CHECKED) assert(offset + size <= this.#capacity, "a message never wraps around the end");
    this.int32[offset >> 2] = size;
    this.#tail = (this.#tail + size) | 0;
    return offset;
  }

  /** Whether some claimed messages are not published yet. */
  get hasUnpublished(): boolean {
    return this.#tail !== this.#published;
  }

  /** Publishes the claimed messages; returns whether there were any. */
  publish(): boolean {
    if (this.#tail === this.#published) return false;
    assert(((this.#tail - this.#published) | 0) > 0, "a writer's position only grows");
    this.#published = this.#tail;
    Atomics.store(this.#words, TAIL_WORD, this.#tail);
    return true;
  }

  /**
   * Asks the reader to ring after it releases room. Before sleeping, call this and then check for
   * room again.
   */
  wantRoom(): void {
    Atomics.store(this.#words, WANTED_WORD, 1);
  }

  /** The number of bytes that the reader has not released. */
  get used(): number {
    this.#head = Atomics.load(this.#words, HEAD_WORD);
    const bytes = (this.#tail - this.#head) | 0;
    assert(bytes >= 0 && bytes <= this.#capacity, "messages in use fit into their ring");
    return bytes;
  }
}
