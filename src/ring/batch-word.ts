// A number of the shared log of a group (a batch, or a message) in one int32, which wraps. The thread of the group writes it, the log's reads it.

export class BatchWord {
  readonly #words: Int32Array;
  readonly #at: number;

  /** `words[at]` belongs to it. */
  constructor(words: Int32Array, at: number) {
    this.#words = words;
    this.#at = at;
  }

  publish(n: number): void {
    Atomics.store(this.#words, this.#at, n | 0);
  }

  /** Its lower 32 bits. */
  get lowBits(): number {
    return Atomics.load(this.#words, this.#at) >>> 0;
  }

  /** The number, which is not above `highest` and not 2^31 below it. */
  read(highest: number): number {
    return highest - ((highest - Atomics.load(this.#words, this.#at)) | 0);
  }
}
