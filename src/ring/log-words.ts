// How far each shard's log records have come: two int32 a shard, numbers of records, which wrap.
//
// Written: the system has the record, so that it outlives the process. Synced: the disk has it, so that it
// outlives the machine. Both are written by the binlog thread alone.

/** int32 words between two shards' entries: a cache line each. */
export const LOG_WORDS = 16;

/** Where in a shard's entry the number stands. */
export const LogWord = { Written: 0, Synced: 1 } as const;
export type LogWord = (typeof LogWord)[keyof typeof LogWord];

export class LogWords {
  readonly #words: Int32Array;
  readonly #word: LogWord;

  constructor(buffer: SharedArrayBuffer, word: LogWord) {
    this.#words = new Int32Array(buffer);
    this.#word = word;
  }

  /** All records of the shard have come so far, up to `number`. */
  publish(shard: number, number: number): void {
    Atomics.store(this.#words, shard * LOG_WORDS + this.#word, number | 0);
  }

  /** Whether any number is another than in `seen`, which has one for each shard. */
  differFrom(seen: Int32Array): boolean {
    for (let shard = 0; shard < seen.length; shard++)
      if (Atomics.load(this.#words, shard * LOG_WORDS + this.#word) !== seen[shard]) return true;
    return false;
  }

  /** Notes all numbers there. */
  copyTo(seen: Int32Array): void {
    for (let shard = 0; shard < seen.length; shard++)
      seen[shard] = Atomics.load(this.#words, shard * LOG_WORDS + this.#word);
  }

  /** Whether record `number` of the shard has come so far. */
  reached(shard: number, number: number): boolean {
    return ((Atomics.load(this.#words, shard * LOG_WORDS + this.#word) - number) | 0) >= 0;
  }
}
