// Until when a server of a group may serve: one int32 of monotonic ms, which wraps. Written by the thread of the group, read by shards once a turn.

export class LeaseWord {
  readonly #words: Int32Array;
  readonly #at: number;

  /** `words[at]` belongs to it. */
  constructor(words: Int32Array, at: number) {
    this.#words = words;
    this.#at = at;
  }

  publish(untilMs: number): void {
    Atomics.store(this.#words, this.#at, Math.floor(untilMs) | 0);
  }

  isOver(nowMs: number): boolean {
    return ((Atomics.load(this.#words, this.#at) - nowMs) | 0) <= 0;
  }
}
