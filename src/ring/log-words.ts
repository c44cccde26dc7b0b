// The progress of each shard's log records: two int32 record numbers per shard, which wrap.
//
// Written: the kernel has the record, so it survives the process. Synced: the disk has it, so it
// survives the machine. Only the log's thread writes them.

import { assert } from "../base/assert.ts";

/** Distance between two shards' entries in int32 words: one cache line. */
export const LOG_WORDS = 16;

/** Position of each number in a shard's entry. */
export const LogWord = { Written: 0, Synced: 1 } as const;
export type LogWord = (typeof LogWord)[keyof typeof LogWord];

export class LogWords {
  readonly #words: Int32Array;
  readonly #word: LogWord;

  constructor(buffer: SharedArrayBuffer, word: LogWord) {
    this.#words = new Int32Array(buffer);
    this.#word = word;
  }

  /** Publishes that all records of the shard up to `number` have reached this point. */
  publish(shard: number, number: number): void {
    const at = shard * LOG_WORDS + this.#word;
    assert(at >= 0 && at < this.#words.length, "a shard has its line of progress");
    assert(((number - Atomics.load(this.#words, at)) | 0) >= 0, "a shard's progress never goes back");
    Atomics.store(this.#words, at, number | 0);
  }

  /** Returns whether any number differs from `seen`, which has one per shard. */
  differFrom(seen: Int32Array): boolean {
    for (let shard = 0; shard < seen.length; shard++)
      if (Atomics.load(this.#words, shard * LOG_WORDS + this.#word) !== seen[shard]) return true;
    return false;
  }

  /** Copies all numbers to `seen`. */
  copyTo(seen: Int32Array): void {
    assert(seen.length * LOG_WORDS <= this.#words.length, "a copy has no more shards than there are");
    for (let shard = 0; shard < seen.length; shard++)
      seen[shard] = Atomics.load(this.#words, shard * LOG_WORDS + this.#word);
  }

  /** Returns whether record `number` of the shard has reached this point. */
  reached(shard: number, number: number): boolean {
    const at = shard * LOG_WORDS + this.#word;
    assert(at < this.#words.length, "a shard that is waited for has its line of progress");
    return ((Atomics.load(this.#words, at) - number) | 0) >= 0;
  }
}
