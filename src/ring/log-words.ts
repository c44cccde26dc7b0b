// The progress of each shard's log records: two int32 record numbers per shard, which wrap.
//
// Written: the kernel has the record, so it survives the process. Synced: the disk has it, so it
// survives the machine. Only the log's thread writes them.

import { assert } from "../base/assert.ts";

// A sequence number of a group's shared log (of a batch or a message) in one int32, which wraps.
// The group's thread writes it, and the log's thread reads it.

export class BatchWord {
  readonly #words: Int32Array;
  readonly #at: number;

  /** Uses `words[at]`. */
  constructor(words: Int32Array, at: number) {
    assert(at >= 0 && at < words.length, "a batch word lies in its memory");
    this.#words = words;
    this.#at = at;
  }

  publish(n: number): void {
    Atomics.store(this.#words, this.#at, n | 0);
  }

  /** The lower 32 bits. */
  get lowBits(): number {
    return Atomics.load(this.#words, this.#at) >>> 0;
  }

  /** Returns the number, which must not exceed `highest` or be 2^31 below it. */
  read(highest: number): number {
    const n = highest - ((highest - Atomics.load(this.#words, this.#at)) | 0);
    assert(n <= highest, "no batch is acknowledged before it is sent");
    return n;
  }
}

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

  reached(shard: number, number: number): boolean {
    const at = shard * LOG_WORDS + this.#word;
    assert(at < this.#words.length, "a shard that is waited for has its line of progress");
    return ((Atomics.load(this.#words, at) - number) | 0) >= 0;
  }
}

// The words by which the HTTP thread asks the log for a cut, and the log answers. A backup has a
// number; the HTTP thread asks for one at a time.

/** Offsets from the word that the log writes. */
const OLDEST = 1;
const LAST = 2;
const KEPT = 3;

/** The segments of a cut; none if `last` is below `oldest`. */
export interface CutSegments {
  readonly oldest: number;
  readonly last: number;
}

export class BackupWords {
  readonly #words: Int32Array;
  readonly #asked: number;
  readonly #answered: number;

  /** The HTTP thread writes the word at `asked`, the log those from `answered` on. */
  constructor(words: Int32Array, asked: number, answered: number) {
    this.#words = words;
    this.#asked = asked;
    this.#answered = answered;
    assert(asked < words.length && answered + KEPT < words.length, "the words lie in their memory");
  }

  /** The backup that needs its segments now; 0 for none. */
  get asked(): number {
    return Atomics.load(this.#words, this.#asked);
  }

  /** Asks for a cut, or gives it back with 0. Ring the log's bell afterwards. */
  ask(number: number): void {
    Atomics.store(this.#words, this.#asked, number);
  }

  /** Hands out a cut. */
  grant(number: number, { oldest, last }: CutSegments): void {
    assert(number > 0, "a cut is for a backup");
    Atomics.store(this.#words, this.#answered + OLDEST, oldest);
    Atomics.store(this.#words, this.#answered + LAST, last);
    this.#answer(number);
  }

  /** Refuses a cut, or takes it back. */
  refuse(number: number): void {
    assert(number > 0, "a refusal is for a backup");
    this.#answer(-number);
  }

  #answer(number: number): void {
    Atomics.store(this.#words, this.#answered, number);
    Atomics.notify(this.#words, this.#answered);
  }

  /** Publishes how many dropped segments are still on the disk. */
  setKept(count: number): void {
    Atomics.store(this.#words, this.#answered + KEPT, count);
  }

  get kept(): number {
    return Atomics.load(this.#words, this.#answered + KEPT);
  }

  isRefused(number: number): boolean {
    return Atomics.load(this.#words, this.#answered) === -number;
  }

  /** Resolves with the answer to `ask(number)`, or with "late" after `limitMs`. */
  async answer(number: number, limitMs: number): Promise<CutSegments | "refused" | "late"> {
    for (;;) {
      const answered = Atomics.load(this.#words, this.#answered);
      if (answered === number) break;
      if (answered === -number) return "refused";
      const wait = Atomics.waitAsync(this.#words, this.#answered, answered, limitMs);
      if (wait.async && (await wait.value) === "timed-out") return "late";
    }
    const word = (at: number): number => Atomics.load(this.#words, this.#answered + at) >>> 0;
    return { oldest: word(OLDEST), last: word(LAST) };
  }
}
