// Up to which job id the log has lent ids: a job with a higher one stays where nobody sees it. One int32, which wraps.

export class LentIds {
  readonly #words: Int32Array;
  readonly #at: number;

  /** `words[at]` belongs to it. */
  constructor(words: Int32Array, at: number) {
    this.#words = words;
    this.#at = at;
  }

  /** Ids up to `limit` may be seen. */
  publish(limit: number): void {
    Atomics.store(this.#words, this.#at, limit | 0);
  }

  /** The limit modulo 2^32, for `isLent`: kept by a reader, it is at worst too low. */
  get low(): number {
    return Atomics.load(this.#words, this.#at);
  }
}

/** Whether `id` may be seen, by a limit's low bits; both are less than 2^31 apart. */
export function isLent(low: number, id: number): boolean {
  return ((low - id) | 0) >= 0;
}
