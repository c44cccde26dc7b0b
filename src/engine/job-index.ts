// Finds a job's slot by its id: ids are dense, so a paged table beats a hash map and never stalls to grow.

import { NO_SLOT } from "./job-table.ts";

const ENTRIES_BITS = 12;
const ENTRIES = 1 << ENTRIES_BITS;

class IndexPage {
  readonly slots: Int32Array = new Int32Array(ENTRIES).fill(NO_SLOT);
  live = 0;
}

/**
 * Pages of 4,096 ids; a page without a live job is dropped. The Map from page number to page stays small (one entry
 * per 4,096 ids with a live job), so that a long-lived server with old buried jobs costs a page for each at worst.
 */
export class JobIndex {
  readonly #pages = new Map<number, IndexPage>();
  #lastNumber = -1;
  #lastPage: IndexPage | undefined;

  /** The slot of the job `id`, or NO_SLOT. */
  get(id: number): number {
    const number = Math.floor(id / ENTRIES);
    const page = number === this.#lastNumber ? this.#lastPage : this.#find(number);
    return page === undefined ? NO_SLOT : page.slots[id - number * ENTRIES]!;
  }

  /** Makes room for `id`; throws RangeError when memory is exhausted, and `set` then does not. */
  makeRoom(id: number): IndexPage {
    const number = Math.floor(id / ENTRIES);
    let page = this.#find(number);
    if (page === undefined) {
      page = new IndexPage();
      this.#pages.set(number, page);
      this.#lastPage = page;
    }
    return page;
  }

  set(id: number, slot: number): void {
    const number = Math.floor(id / ENTRIES);
    const page = this.makeRoom(id);
    if (page.slots[id - number * ENTRIES] === NO_SLOT) page.live++;
    page.slots[id - number * ENTRIES] = slot;
  }

  delete(id: number): void {
    const number = Math.floor(id / ENTRIES);
    const page = this.#find(number);
    if (page === undefined || page.slots[id - number * ENTRIES] === NO_SLOT) return;
    page.slots[id - number * ENTRIES] = NO_SLOT;
    if (--page.live > 0) return;
    this.#pages.delete(number);
    this.#lastPage = undefined;
  }

  #find(number: number): IndexPage | undefined {
    if (number !== this.#lastNumber) {
      this.#lastNumber = number;
      this.#lastPage = this.#pages.get(number);
    }
    return this.#lastPage;
  }
}
