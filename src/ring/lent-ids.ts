// The highest job id that the log has lent: jobs with higher ids stay invisible. One int32, which
// wraps.

import { assert } from "../base/assert.ts";

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
