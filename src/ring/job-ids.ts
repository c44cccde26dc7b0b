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

  /** Returns the last id that was taken; 0 if none was since the next one was `first`. */
  lastSince(first: number): number {
    const next = this.#complete(Atomics.load(this.#words, this.#low) >>> 0);
    assert(next >= first, "ids only go up");
    return next === first ? 0 : next - 1;
  }

  #complete(low: number): number {
    const near = Atomics.load(this.#words, this.#hint) * HINT_UNIT;
    const id = near - (near % LOW_RANGE) + low;
    if (id < near - LOW_RANGE / 2) return id + LOW_RANGE;
    return id > near + LOW_RANGE / 2 ? id - LOW_RANGE : id;
  }
}

// The highest job id that the log has lent: jobs with higher ids stay invisible. One int32, which
// wraps.

export class LentIds {
  readonly #words: Int32Array;
  readonly #at: number;

  /** Uses `words[at]`. */
  constructor(words: Int32Array, at: number) {
    assert(at >= 0 && at < words.length, "the word of the lent ids lies in its memory");
    this.#words = words;
    this.#at = at;
  }

  /** Makes ids up to `limit` visible. */
  publish(limit: number): void {
    assert(limit >= 0 && limit <= Number.MAX_SAFE_INTEGER, "a limit of ids is a safe integer");
    Atomics.store(this.#words, this.#at, limit | 0);
  }

  /** The limit modulo 2^32, for `isLent`. A stale copy is at worst too low. */
  get low(): number {
    return Atomics.load(this.#words, this.#at);
  }
}

/**
 * Returns whether `id` may be visible, given the low bits of the limit. The two must be less than
 * 2^31 apart.
 */
export function isLent(low: number, id: number): boolean {
  assert(id > 0, "an id that may be visible is not 0");
  return ((low - id) | 0) >= 0;
}
