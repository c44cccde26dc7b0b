// Up to which batch the shared log of a group has all: one int32, which wraps. Written by the thread of the group, read by the log's.

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

  /** The number, which is not above `highest` and not 2^31 below it. */
  read(highest: number): number {
    return highest - ((highest - Atomics.load(this.#words, this.#at)) | 0);
  }
}
