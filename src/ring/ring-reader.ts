// The reading end of a ring: takes messages in order, and releases them in batches.

import { assert } from "../base/assert.ts";
import { DATA_OFFSET, HEAD_WORD, TAIL_WORD, WANTED_WORD } from "./ring-layout.ts";

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
