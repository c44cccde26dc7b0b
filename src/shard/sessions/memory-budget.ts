// What a shard keeps of the memory that --max-memory gives to all shards together.
//
// A shard holds pages a little in advance, and gives back what it has too many: a put is a comparison.

import type { MemoryLimit } from "../../engine/jobs/body-arena.ts";
import { PUT_BYTES } from "../../engine/memory-use.ts";
import { MEMORY_PAGE_BYTES, type MemoryWords } from "../../ring/memory-words.ts";

/** Pages that are taken at once, and this share of what a shard would have of the limit if that is less. */
const LOT_PAGES_MAX = 16;
const LOT_SHARE = 1 / 1024;

/** What a shard keeps for clients. */
interface Counted {
  readonly memoryBytes: number;
}

export class MemoryBudget implements MemoryLimit {
  readonly #counted: Counted;
  readonly #words: MemoryWords;
  readonly #shards: number;
  #heldPages = 0;

  constructor(counted: Counted, words: MemoryWords, shards: number) {
    this.#counted = counted;
    this.#words = words;
    this.#shards = shards;
  }

  /** Whether all that is there now may be, with one more job. */
  get allows(): boolean {
    if (this.#words.isFull) return false;
    const missing = this.#counted.memoryBytes + PUT_BYTES - this.#heldPages * MEMORY_PAGE_BYTES;
    return missing <= 0 || this.#claim(Math.ceil(missing / MEMORY_PAGE_BYTES));
  }

  /** After a turn: counts what it took without asking, and gives back what is not needed. */
  settle(): void {
    const needed = Math.ceil(this.#counted.memoryBytes / MEMORY_PAGE_BYTES);
    const spare = this.#heldPages - needed;
    if (spare < 0) {
      this.#words.take(-spare);
      this.#heldPages = needed;
      return;
    }
    const lot = this.#lotPages();
    if (spare <= 2 * lot) return;
    this.#words.give(spare - lot);
    this.#heldPages = needed + lot;
  }

  #claim(pages: number): boolean {
    const lot = this.#lotPages();
    if (pages < lot && this.#words.claim(lot)) this.#heldPages += lot;
    // Near the limit there may be no lot any more, but what is needed.
    else if (this.#words.claim(pages)) this.#heldPages += pages;
    else {
      this.#words.noteFull();
      return false;
    }
    return true;
  }

  #lotPages(): number {
    const { limitBytes } = this.#words;
    if (limitBytes === Number.POSITIVE_INFINITY) return LOT_PAGES_MAX;
    const share = (limitBytes / MEMORY_PAGE_BYTES / this.#shards) * LOT_SHARE;
    return Math.max(1, Math.min(LOT_PAGES_MAX, Math.floor(share)));
  }
}
