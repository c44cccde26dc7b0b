// Flags that all threads share and that change rarely.

import { assert } from "../base/assert.ts";

export class ControlWords {
  readonly words: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.words = new Int32Array(buffer);
  }

  isSet(word: number): boolean {
    return Atomics.load(this.words, word) !== 0;
  }

  set(word: number): void {
    assert(word < this.words.length, "a flag to set lies in its memory");
    Atomics.store(this.words, word, 1);
  }

  clear(word: number): void {
    assert(word < this.words.length, "a flag to clear lies in its memory");
    Atomics.store(this.words, word, 0);
  }
}

// The memory that jobs of all shards use, and its limit: three words that all threads share.
//
// Shards claim and return several pages at a time, so the sum never exceeds the limit and a put
// pays nothing.

/** The unit of accounting. */
export const MEMORY_PAGE_BYTES = 4096;
/** Maximum of a word: 8 TiB. */
const PAGES_MAX = 0x7fff_ffff;
/**
 * The share of the limit below which puts are accepted again: hysteresis, so that the server
 * doesn't alternate.
 */
const AGAIN_SHARE = 0.98;

export class MemoryWords {
  readonly #words: Int32Array;
  readonly #used: number;
  readonly #limit: number;
  readonly #full: number;

  /**
   * `words` holds at these indexes: the pages in use, the limit in pages or 0, and 1 while the
   * memory is full.
   */
  constructor(words: Int32Array, used: number, limit: number, full: number) {
    assert(used !== limit && limit !== full && full !== used, "the words of the memory are different");
    this.#words = words;
    this.#used = used;
    this.#limit = limit;
    this.#full = full;
  }

  /** The limit in bytes; Infinity for none. */
  get limitBytes(): number {
    const pages = Atomics.load(this.#words, this.#limit);
    return pages === 0 ? Number.POSITIVE_INFINITY : pages * MEMORY_PAGE_BYTES;
  }

  /**
   * Sets the limit: at least one page, or Infinity for none. Existing jobs stay, even if they
   * exceed it.
   */
  set limitBytes(bytes: number) {
    assert(bytes >= MEMORY_PAGE_BYTES, "a limit is at least one page");
    const pages =
      bytes === Number.POSITIVE_INFINITY ? 0 : Math.min(PAGES_MAX, Math.floor(bytes / MEMORY_PAGE_BYTES));
    Atomics.store(this.#words, this.#limit, pages);
    if (pages > 0 && this.usedPages > pages) this.noteFull();
  }

  get usedPages(): number {
    return Atomics.load(this.#words, this.#used);
  }

  get usedBytes(): number {
    return this.usedPages * MEMORY_PAGE_BYTES;
  }

  /** Whether new jobs are refused. */
  get isFull(): boolean {
    if (Atomics.load(this.#words, this.#full) === 0) return false;
    if (this.usedBytes > this.limitBytes * AGAIN_SHARE) return true;
    Atomics.store(this.#words, this.#full, 0);
    return false;
  }

  /** Refuses new jobs until enough memory is free. */
  noteFull(): void {
    Atomics.store(this.#words, this.#full, 1);
  }

  /** Claims pages if the limit allows it. */
  claim(pages: number): boolean {
    const limit = Atomics.load(this.#words, this.#limit);
    let used = this.usedPages;
    while (limit === 0 || used + pages <= limit) {
      const found = Atomics.compareExchange(this.#words, this.#used, used, used + pages);
      if (found === used) return true;
      used = found;
    }
    return false;
  }

  /** Counts pages that are already in use. */
  take(pages: number): void {
    const used = Atomics.add(this.#words, this.#used, pages) + pages;
    assert(used >= pages, "the pages in use include those taken");
    const limit = Atomics.load(this.#words, this.#limit);
    if (limit > 0 && used > limit) this.noteFull();
  }

  give(pages: number): void {
    const before = Atomics.sub(this.#words, this.#used, pages);
    assert(pages >= 0 && before >= pages, "pages given back were taken");
  }
}
