// The words by which the HTTP thread asks the log for a cut, and the log answers. A backup has a
// number; the HTTP thread asks for one at a time.

import { assert } from "../base/assert.ts";

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
