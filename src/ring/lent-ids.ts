// The highest job id that the log has lent: jobs with higher ids stay invisible. One int32, which
// wraps.

export class LentIds {
  readonly #words: Int32Array;
  readonly #at: number;

  /** Uses `words[at]`. */
  constructor(words: Int32Array, at: number) {
    this.#words = words;
    this.#at = at;
  }

  /** Makes ids up to `limit` visible. */
  publish(limit: number): void {
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
  return ((low - id) | 0) >= 0;
}
