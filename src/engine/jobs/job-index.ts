// An index from job ids to slots. Ids are dense, so a paged table beats a hash map and never stalls
// to grow.

import { assert, CHECKED } from "../../base/assert.ts";
import { NO_SLOT } from "./job-table.ts";

// The keys of a map in ascending order, for upward walks. Keys mostly arrive in order, and many are
// removed.

/** Slack: the array may hold this many removed keys, plus as many as there are keys. */
const GONE_MAX = 16;
/** A walk that passes more removed keys than this removes them for good, to spare later walks. */
const PASSED_MAX = 1000;

/**
 * An array beside the map; the owner updates both. Removed keys stay in it until half of it is
 * removed, because removing the first of many keys one by one would shift the rest each time. Keys
 * out of order are sorted in at the next walk, all at once: a log returns jobs in any order.
 */
export class SortedNumbers {
  #numbers: number[] = [];
  readonly #keys: ReadonlyMap<number, unknown>;
  #isInOrder = true;
  /** Numbers examined or sorted, which commands are charged for. The caller resets it. */
  looks = 0;

  constructor(keys: ReadonlyMap<number, unknown>) {
    this.#keys = keys;
  }

  /** Notes that the map has a new key. */
  add(number: number): void {
    if (CHECKED) assert(this.#keys.has(number), "each number is a key");
    const last = this.#numbers.at(-1);
    if (last === number) return;
    if (last !== undefined && last > number) this.#isInOrder = false;
    this.#numbers.push(number);
  }

  /** Notes that the map has lost a key. */
  noteLoss(): void {
    assert(this.#numbers.length >= this.#keys.size, "each key is among the numbers");
    if (this.#numbers.length > 2 * this.#keys.size + GONE_MAX) this.#tidy();
  }

  /** Returns the smallest key that is at least `low`. */
  from(low: number): number | undefined {
    const numbers = this.#ordered();
    const first = this.#search(low);
    for (let at = first; at < numbers.length; at++)
      if (this.#keys.has(numbers[at]!)) return this.#passed(at - first, numbers[at]);
    return this.#passed(numbers.length - first, undefined);
  }

  /** Returns the greatest key below `high`. */
  before(high: number): number | undefined {
    const numbers = this.#ordered();
    const first = this.#search(high) - 1;
    for (let at = first; at >= 0; at--)
      if (this.#keys.has(numbers[at]!)) return this.#passed(first - at, numbers[at]);
    return this.#passed(first + 1, undefined);
  }

  /** The greatest key. */
  get last(): number | undefined {
    return this.before(Number.POSITIVE_INFINITY);
  }

  /** Notes how many removed keys a walk has passed, and returns what it has found. */
  #passed(count: number, found: number | undefined): number | undefined {
    this.looks += 1 + count;
    if (count > PASSED_MAX) this.#tidy();
    return found;
  }

  #ordered(): readonly number[] {
    if (!this.#isInOrder) this.#tidy();
    return this.#numbers;
  }

  #tidy(): void {
    this.#numbers = [...this.#keys.keys()];
    this.#numbers.sort((a, b) => a - b);
    this.looks += this.#numbers.length;
    this.#isInOrder = true;
  }

  /** Returns the first position whose number is at least `low`. */
  #search(low: number): number {
    let from = 0;
    let to = this.#numbers.length;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.#numbers[middle]! < low) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

const ENTRIES_BITS = 12;
const ENTRIES = 1 << ENTRIES_BITS;
/** A page with more jobs is dense. */
const SPARSE_MAX = 128;
/**
 * A dense page with fewer jobs becomes sparse. Below SPARSE_MAX, so that a page does not flip back
 * and forth.
 */
const DENSE_MIN = 64;
/**
 * Number of excess pairs, beyond twice the jobs, that a sparse page may keep; pairs of ended jobs
 * are removed many at a time.
 */
const ENDED_PAIRS = 8;

class IndexPage {
  readonly number: number;
  /** Slots by offset of the id in the page; undefined while the page is sparse. */
  dense: Int32Array | undefined;
  /**
   * While the page is sparse: offset, slot, offset, slot ... sorted by offset. The slot of an ended
   * job is NO_SLOT.
   */
  pairs: number[] = [];
  /** Number of entries of `pairs` in use. */
  used = 0;
  /** Number of jobs in the page. */
  live = 0;

  constructor(number: number) {
    this.number = number;
  }

  /** Returns the position of an offset's pair, or where it belongs. */
  search(offset: number): number {
    const { pairs } = this;
    let low = 0;
    let high = this.used >>> 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (pairs[middle * 2]! < offset) low = middle + 1;
      else high = middle;
    }
    return low * 2;
  }

  /** Returns whether the pair at `at`, a result of `search`, has this offset. */
  hasPair(at: number, offset: number): boolean {
    return at < this.used && this.pairs[at] === offset;
  }

  insert(at: number, offset: number, slot: number): void {
    const { pairs } = this;
    if (CHECKED) assert(at === 0 || pairs[at - 2]! < offset, "pairs are sorted by offset");
    for (let i = this.used - 1; i >= at; i--) pairs[i + 2] = pairs[i]!;
    pairs[at] = offset;
    pairs[at + 1] = slot;
    this.used += 2;
    this.live++;
  }

  /** Ends the job whose pair is at `at`. */
  remove(at: number): void {
    if (CHECKED) assert(at < this.used && this.pairs[at + 1] !== NO_SLOT, "the job of a pair ends once");
    this.pairs[at + 1] = NO_SLOT;
    this.live--;
    if (this.used > (this.live * 2 + ENDED_PAIRS) * 2) this.#sweep();
  }

  #sweep(): void {
    const { pairs } = this;
    let kept = 0;
    for (let at = 0; at < this.used; at += 2) {
      if (pairs[at + 1] === NO_SLOT) continue;
      pairs[kept] = pairs[at]!;
      pairs[kept + 1] = pairs[at + 1]!;
      kept += 2;
    }
    this.used = kept;
    assert(kept === this.live * 2, "a page keeps the pairs of its jobs");
    if (pairs.length > ENDED_PAIRS * 4 && pairs.length > kept * 4) this.pairs = pairs.slice(0, kept);
  }

  /** Continues from `place` as `JobIndex.next` does, but only within this page. */
  next(place: IndexPlace, lastId: number): number {
    const first = this.number * ENTRIES;
    const last = Math.min(ENTRIES - 1, lastId - first);
    const from = Math.max(0, place.id + 1 - first);
    assert(from <= last, "a walk continues in a page that it has not passed");
    return this.dense === undefined
      ? this.#nextSparse(place, from, last)
      : this.#nextDense(this.dense, place, from, last);
  }

  #nextDense(slots: Int32Array, place: IndexPlace, from: number, last: number): number {
    const end = Math.min(last, from + place.looksLeft - 1);
    const first = this.number * ENTRIES;
    for (let offset = from; offset <= end; offset++) {
      if (slots[offset] === NO_SLOT) continue;
      place.looksLeft -= offset - from + 1;
      place.id = first + offset;
      return slots[offset]!;
    }
    place.looksLeft -= end - from + 1;
    assert(place.looksLeft >= 0, "a walk keeps to its budget");
    place.id = first + end;
    return NO_SLOT;
  }

  #nextSparse(place: IndexPlace, from: number, last: number): number {
    const { pairs } = this;
    const first = this.number * ENTRIES;
    for (let at = this.search(from); at < this.used && pairs[at]! <= last; at += 2) {
      if (place.looksLeft === 0) return NO_SLOT;
      place.looksLeft--;
      place.id = first + pairs[at]!;
      if (pairs[at + 1] !== NO_SLOT) return pairs[at + 1]!;
    }
    place.id = first + last;
    return NO_SLOT;
  }

  /** The highest offset of a job, or -1. */
  get highest(): number {
    if (this.dense !== undefined) return this.dense.findLastIndex((slot) => slot !== NO_SLOT);
    for (let at = this.used - 2; at >= 0; at -= 2) if (this.pairs[at + 1] !== NO_SLOT) return this.pairs[at]!;
    return -1;
  }

  /** Makes the page dense, with an empty array. */
  thicken(slots: Int32Array): void {
    assert(this.dense === undefined, "only a sparse page becomes dense");
    for (let at = 0; at < this.used; at += 2) slots[this.pairs[at]!] = this.pairs[at + 1]!;
    this.pairs = [];
    this.used = 0;
    this.dense = slots;
  }

  /** Makes the page sparse; returns its array, emptied. */
  thin(): Int32Array {
    const slots = this.dense;
    assert(slots !== undefined, "only a dense page becomes sparse");
    const pairs: number[] = [];
    for (let offset = 0; offset < ENTRIES; offset++) {
      if (slots[offset] === NO_SLOT) continue;
      pairs.push(offset, slots[offset]!);
      slots[offset] = NO_SLOT;
    }
    assert(pairs.length === this.live * 2, "a page has the pairs of its jobs");
    this.pairs = pairs;
    this.used = pairs.length;
    this.dense = undefined;
    return slots;
  }
}

/** A position among the ids, for a walk upwards through them in any number of steps. */
export interface IndexPlace {
  /** The last id examined; 0 before the first. */
  id: number;
  /** Number of ids that may still be examined, with or without a job. */
  looksLeft: number;
}

/**
 * The index consists of pages of 4,096 ids. A page with many jobs is an array of slots, one with
 * few a list of pairs. The last job of a page thus costs some 200 bytes instead of 16 KiB, and a
 * long-lived server has old buried jobs in many pages. Empty pages are dropped except the newest,
 * so that a queue that fills and empties allocates nothing.
 */
export class JobIndex {
  readonly #pages = new Map<number, IndexPage>();
  /** The page numbers. */
  readonly #numbers = new SortedNumbers(this.#pages);
  #newest: IndexPage | undefined;
  #lastNumber = -1;
  #lastPage: IndexPage | undefined;
  /** The array of a page that became sparse, for the next page that becomes dense. */
  #spare: Int32Array | undefined;

  /** Returns the slot of job `id`, or NO_SLOT. */
  get(id: number): number {
    const number = Math.floor(id / ENTRIES);
    const page = number === this.#lastNumber ? this.#lastPage : this.#find(number);
    if (page === undefined) return NO_SLOT;
    const offset = id - number * ENTRIES;
    if (page.dense !== undefined) return page.dense[offset]!;
    const at = page.search(offset);
    return page.hasPair(at, offset) ? page.pairs[at + 1]! : NO_SLOT;
  }

  /**
   * Makes room for `id`. Throws RangeError when memory is exhausted; a following `set` then does
   * not throw.
   */
  makeRoom(id: number): IndexPage {
    if (CHECKED) assert(id >= 0 && id <= Number.MAX_SAFE_INTEGER, "an id is a safe integer");
    const number = Math.floor(id / ENTRIES);
    const page = this.#find(number) ?? this.#open(number);
    if (page.dense === undefined && page.live === SPARSE_MAX) {
      page.thicken(this.#spare ?? new Int32Array(ENTRIES).fill(NO_SLOT));
      this.#spare = undefined;
    }
    return page;
  }

  set(id: number, slot: number): void {
    const page = this.makeRoom(id);
    const offset = id - page.number * ENTRIES;
    if (page.dense !== undefined) {
      if (page.dense[offset] === NO_SLOT) page.live++;
      page.dense[offset] = slot;
      return;
    }
    const at = page.search(offset);
    if (!page.hasPair(at, offset)) {
      page.insert(at, offset, slot);
      return;
    }
    if (page.pairs[at + 1] === NO_SLOT) page.live++;
    page.pairs[at + 1] = slot;
  }

  delete(id: number): void {
    const number = Math.floor(id / ENTRIES);
    const page = this.#find(number);
    if (page === undefined) return;
    const offset = id - number * ENTRIES;
    if (page.dense !== undefined) {
      if (page.dense[offset] === NO_SLOT) return;
      page.dense[offset] = NO_SLOT;
      if (--page.live < DENSE_MIN) this.#spare = page.thin();
      return;
    }
    const at = page.search(offset);
    if (!page.hasPair(at, offset) || page.pairs[at + 1] === NO_SLOT) return;
    page.remove(at);
    if (page.live === 0 && page !== this.#newest) this.#drop(page);
  }

  /**
   * Returns the slot of the next job after `place.id`, up to `lastId`, and advances the place to
   * it. Returns NO_SLOT if no more ids may be examined, or if there is no job; in the latter case
   * the place's id is `lastId`.
   */
  next(place: IndexPlace, lastId: number): number {
    assert(place.looksLeft >= 0, "a walk has a budget");
    while (place.id < lastId && place.looksLeft > 0) {
      const number = this.#numbers.from(Math.floor((place.id + 1) / ENTRIES));
      if (number === undefined || number * ENTRIES > lastId) break;
      const slot = this.#pages.get(number)!.next(place, lastId);
      if (slot !== NO_SLOT) return slot;
    }
    if (place.looksLeft > 0) place.id = lastId;
    return NO_SLOT;
  }

  /** The highest id of a job, or 0. */
  get highestId(): number {
    for (let number = this.#numbers.last; number !== undefined; number = this.#numbers.before(number)) {
      const offset = this.#pages.get(number)!.highest;
      if (offset >= 0) return number * ENTRIES + offset;
    }
    return 0;
  }

  #open(number: number): IndexPage {
    assert(!this.#pages.has(number), "a page is opened once");
    const page = new IndexPage(number);
    this.#pages.set(number, page);
    this.#numbers.add(number);
    if (this.#newest === undefined || number > this.#newest.number) {
      if (this.#newest?.live === 0) this.#drop(this.#newest);
      this.#newest = page;
    }
    this.#lastNumber = number;
    this.#lastPage = page;
    return page;
  }

  #drop(page: IndexPage): void {
    assert(page.live === 0, "a page with jobs stays");
    this.#pages.delete(page.number);
    this.#numbers.noteLoss();
    if (page === this.#lastPage) this.#lastPage = undefined;
  }

  #find(number: number): IndexPage | undefined {
    if (number !== this.#lastNumber) {
      this.#lastNumber = number;
      this.#lastPage = this.#pages.get(number);
    }
    return this.#lastPage;
  }
}
