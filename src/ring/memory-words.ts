// The memory that jobs have, over all shards, and how much they may have: three words that all threads share.
//
// Shards take and give pages, some at a time, so that the sum is never more than the limit and costs a put nothing.

/** What is counted. */
export const MEMORY_PAGE_BYTES = 4096;
/** Of a word: 8 TiB. */
const PAGES_MAX = 0x7fff_ffff;
/** Puts are taken again at this share of the limit, so that they are not taken and refused by turns. */
const AGAIN_SHARE = 0.98;

export class MemoryWords {
  readonly #words: Int32Array;
  readonly #used: number;
  readonly #limit: number;
  readonly #full: number;

  /** `words` at these places belong to it: pages that are taken, the limit in pages or 0, and 1 while it is reached. */
  constructor(words: Int32Array, used: number, limit: number, full: number) {
    this.#words = words;
    this.#used = used;
    this.#limit = limit;
    this.#full = full;
  }

  /** Infinity where there is no limit. */
  get limitBytes(): number {
    const pages = Atomics.load(this.#words, this.#limit);
    return pages === 0 ? Number.POSITIVE_INFINITY : pages * MEMORY_PAGE_BYTES;
  }

  /** At least one page; Infinity for no limit. What is there stays, also where it is more. */
  set limitBytes(bytes: number) {
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

  /** New jobs are refused from now on, until enough of them have gone. */
  noteFull(): void {
    Atomics.store(this.#words, this.#full, 1);
  }

  /** Takes pages if the limit allows it. */
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

  /** Counts pages that are in use already. */
  take(pages: number): void {
    const used = Atomics.add(this.#words, this.#used, pages) + pages;
    const limit = Atomics.load(this.#words, this.#limit);
    if (limit > 0 && used > limit) this.noteFull();
  }

  give(pages: number): void {
    Atomics.sub(this.#words, this.#used, pages);
  }
}
