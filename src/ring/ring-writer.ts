// The writing end of a ring: claims room, fills it, and publishes messages in batches.

import { assert, CHECKED } from "../base/assert.ts";
import { DATA_OFFSET, HEAD_WORD, messageBytesMax, TAIL_WORD, WANTED_WORD } from "./ring-layout.ts";

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
    if (!this.hasRoom(length)) return FULL;
    const size = (length + 7) & ~7;
    let offset = this.#tail & (this.#capacity - 1);
    const toEnd = this.#capacity - offset;
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
