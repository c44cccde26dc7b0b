// A sequence number of a group's shared log (of a batch or a message) in one int32, which wraps.
// The group's thread writes it, and the log's thread reads it.

import { assert } from "../base/assert.ts";

export class BatchWord {
  readonly #words: Int32Array;
  readonly #at: number;

  /** Uses `words[at]`. */
  constructor(words: Int32Array, at: number) {
    assert(at >= 0 && at < words.length, "a batch word lies in its memory");
    this.#words = words;
    this.#at = at;
  }

  publish(n: number): void {
    Atomics.store(this.#words, this.#at, n | 0);
  }

  /** The lower 32 bits. */
  get lowBits(): number {
    return Atomics.load(this.#words, this.#at) >>> 0;
  }

  /** Returns the number, which must not exceed `highest` or be 2^31 below it. */
  read(highest: number): number {
    const n = highest - ((highest - Atomics.load(this.#words, this.#at)) | 0);
    assert(n <= highest, "no batch is acknowledged before it is sent");
    return n;
  }
}
