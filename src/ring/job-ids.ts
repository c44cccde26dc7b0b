// Hands out job ids 1, 2, 3 … over all threads without a BigInt; also the numbers of tubes.
//
// Two int32 words hold the low 32 bits of the next id, taken with an atomic add, and a hint. The
// hint is the next id divided by 2^24; the thread that takes a multiple of 2^24 stores it. A taker
// completes its low bits to the number nearest to the hint. That number is right as long as the
// hint is less than 2^31 ids behind.

import { assert } from "../base/assert.ts";

const HINT_UNIT = 2 ** 24;
const LOW_RANGE = 2 ** 32;

export class JobIds {
  readonly #words: Int32Array;
  readonly #low: number;
  readonly #hint: number;

  /** Uses `words[at]` and `words[at + 1]`. */
  constructor(words: Int32Array, at: number) {
    assert(at >= 0 && at + 1 < words.length, "the two words of the ids lie in their memory");
    this.#words = words;
    this.#low = at;
    this.#hint = at + 1;
  }

  /** Sets the next id; call before any thread takes one. */
  reset(nextId: number): void {
    assert(nextId >= 1 && nextId <= Number.MAX_SAFE_INTEGER, "ids are positive safe integers");
    Atomics.store(this.#words, this.#low, (nextId % LOW_RANGE) | 0);
    Atomics.store(this.#words, this.#hint, Math.floor(nextId / HINT_UNIT));
  }

  take(): number {
    const id = this.#complete(Atomics.add(this.#words, this.#low, 1) >>> 0);
    assert(id >= 0 && id <= Number.MAX_SAFE_INTEGER, "a number that is taken is a safe integer");
    if (id % HINT_UNIT === 0) Atomics.store(this.#words, this.#hint, id / HINT_UNIT);
    return id;
  }

  /** The next id, without taking it. */
  get next(): number {
    return this.#complete(Atomics.load(this.#words, this.#low) >>> 0);
  }

  #complete(low: number): number {
    const near = Atomics.load(this.#words, this.#hint) * HINT_UNIT;
    const id = near - (near % LOW_RANGE) + low;
    if (id < near - LOW_RANGE / 2) return id + LOW_RANGE;
    return id > near + LOW_RANGE / 2 ? id - LOW_RANGE : id;
  }
}
