// A shard's share of the memory that --max-memory allows for all shards.
//
// A shard claims pages slightly ahead and gives back excess ones, so that a put usually costs only
// a comparison.

import { assert, CHECKED } from "../../base/assert.ts";
import { PUT_BYTES } from "../../engine/engine.ts";
import type { MemoryLimit } from "../../engine/jobs/body-arena.ts";
import { MEMORY_PAGE_BYTES, type MemoryWords } from "../../ring/shared-words.ts";

/** Pages claimed at once, or this share of the shard's part of the limit if that is less. */
const LOT_PAGES_MAX = 16;
const LOT_SHARE = 1 / 1024;

/** The memory that a shard uses for clients. */
interface Counted {
  readonly memoryBytes: number;
}

export class MemoryBudget implements MemoryLimit {
  readonly #counted: Counted;
  readonly #words: MemoryWords;
  readonly #shards: number;
  #heldPages = 0;
  /** Pages that were needed and held at the last check for excess ones. */
  #settledPages = 0;
  #settledHeldPages = 0;

  constructor(counted: Counted, words: MemoryWords, shards: number) {
    assert(shards > 0, "at least one shard shares the memory limit");
    this.#counted = counted;
    this.#words = words;
    this.#shards = shards;
  }

  /** Whether the memory in use plus one more job is within the limit. */
  get allows(): boolean {
    if (CHECKED) assert(this.#heldPages >= 0, "the number of held pages is not negative");
    if (this.#words.isFull) return false;
    const missing = this.#counted.memoryBytes + PUT_BYTES - this.#heldPages * MEMORY_PAGE_BYTES;
    return missing <= 0 || this.#claim(Math.ceil(missing / MEMORY_PAGE_BYTES));
  }

  /** Called after a turn: counts memory taken without a claim, and gives excess pages back. */
  settle(): void {
    assert(this.#heldPages >= 0, "the number of claimed pages is not negative");
    const needed = Math.ceil(this.#counted.memoryBytes / MEMORY_PAGE_BYTES);
    const spare = this.#heldPages - needed;
    if (spare < 0) {
      this.#words.take(-spare);
      this.#heldPages = needed;
      return;
    }
    if (needed === this.#settledPages && this.#heldPages === this.#settledHeldPages) return;
    this.#settledPages = needed;
    this.#settledHeldPages = this.#heldPages;
    const lot = this.#lotPages();
    if (spare <= 2 * lot) return;
    this.#words.give(spare - lot);
    this.#heldPages = needed + lot;
    this.#settledHeldPages = this.#heldPages;
  }

  #claim(pages: number): boolean {
    assert(pages > 0, "only missing pages are claimed");
    const lot = this.#lotPages();
    if (pages < lot && this.#words.claim(lot)) this.#heldPages += lot;
    // Near the limit there may be too little for a whole lot, but enough for the need.
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
