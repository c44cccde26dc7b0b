// A binary heap of job slots whose positions are in the job table, so that any member can be
// removed.
//
// It computes pages and rows itself: with `pageOf` and `rowOf`, which the other files use, a push
// and a pop took a fifth longer.

import { assert, CHECKED } from "../../base/assert.ts";
import { type JobPage, type JobTable, NO_SLOT, PAGE_BITS, PAGE_MASK, rowOf } from "../jobs/job-table.ts";
import { IndexedHeap } from "./heaps.ts";

const CAPACITY_MIN = 4;
const NO_SLOTS = new Int32Array(0);

/** Base class of the orders below. A slot is in at most one heap at a time. */
abstract class SlotHeap {
  protected readonly jobs: JobTable;
  /**
   * The first slot in order. Stored apart, so that the common heap with one member needs no array.
   */
  #top: number = NO_SLOT;
  /** The slots by position; the first element is unused. */
  #slots = NO_SLOTS;
  #size = 0;
  readonly #keptCapacity: number;

  /**
   * Never shrinks the array below `keptCapacity` slots, for heaps that fill and empty again and
   * again.
   */
  constructor(jobs: JobTable, keptCapacity: number = CAPACITY_MIN) {
    this.jobs = jobs;
    this.#keptCapacity = keptCapacity;
  }

  get size(): number {
    return this.#size;
  }

  /** The first slot in order, or NO_SLOT. */
  get top(): number {
    return this.#top;
  }

  /** Returns the slot at a position, 0 to `size - 1`, in no particular order. */
  at(position: number): number {
    if (CHECKED) assert(position >= 0 && position <= this.#size, "a position is within the heap");
    return position === 0 ? this.#top : this.#slots[position]!;
  }

  /**
   * Makes room for one more slot. Throws RangeError when memory is exhausted; a following `push`
   * then does not throw.
   */
  makeRoom(): void {
    if (this.#size > 0 && this.#size >= this.#slots.length) this.#resize(this.#slots.length * 2);
  }

  push(slot: number): void {
    this.makeRoom();
    this.#siftUp(this.#size++, slot);
  }

  /**
   * Takes over all members of another heap of the same order, which must not be used any more. This
   * heap must be empty.
   */
  protected takeOver(other: SlotHeap): void {
    assert(this.#size === 0, "only an empty heap takes over another");
    this.#top = other.#top;
    this.#slots = other.#slots;
    this.#size = other.#size;
  }

  /** Restores the order after a member's sort key has changed. */
  protected settle(slot: number): void {
    const position = this.jobs.pageOf(slot).heapPosition[slot & PAGE_MASK]!;
    assert(position < this.#size && this.at(position) === slot, "a job is settled in the heap that it is in");
    if (position > 0 && this.less(slot, this.at((position - 1) >> 1))) this.#siftUp(position, slot);
    else this.#siftDown(position, slot);
  }

  remove(slot: number): void {
    const position = this.jobs.pages[slot >>> PAGE_BITS]!.heapPosition[slot & PAGE_MASK]!;
    assert(position < this.#size && this.at(position) === slot, "a job leaves the heap that it is in");
    const last = this.at(--this.#size);
    if (this.#size === 0) this.#top = NO_SLOT;
    else if (position < this.#size) {
      if (position > 0 && this.less(last, this.at((position - 1) >> 1))) this.#siftUp(position, last);
      else this.#siftDown(position, last);
    }
    if (this.#slots.length > this.#keptCapacity && this.#size < this.#slots.length >> 2) this.#shrink();
  }

  protected abstract less(a: number, b: number): boolean;

  #place(position: number, slot: number): void {
    if (position === 0) this.#top = slot;
    else this.#slots[position] = slot;
    this.jobs.pages[slot >>> PAGE_BITS]!.heapPosition[slot & PAGE_MASK] = position;
  }

  #siftUp(from: number, slot: number): void {
    let position = from;
    while (position > 0) {
      const parent = (position - 1) >> 1;
      const above = parent === 0 ? this.#top : this.#slots[parent]!;
      if (!this.less(slot, above)) break;
      this.#place(position, above);
      position = parent;
    }
    this.#place(position, slot);
  }

  /**
   * Moves the slot to the bottom and up again: it was last before and belongs near the bottom, so
   * this needs one comparison a level instead of two.
   */
  #siftDown(from: number, slot: number): void {
    const size = this.#size;
    let position = from;
    for (let child = from * 2 + 1; child < size; child = position * 2 + 1) {
      if (child + 1 < size && this.less(this.#slots[child + 1]!, this.#slots[child]!)) child++;
      this.#place(position, this.#slots[child]!);
      position = child;
    }
    this.#siftUp(position, slot);
  }

  /** Shrinks the array. Without memory for a smaller one, the large one stays. */
  #shrink(): void {
    try {
      this.#resize(this.#slots.length >> 1);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }

  #resize(capacity: number): void {
    const slots = new Int32Array(Math.max(capacity, CAPACITY_MIN));
    assert(slots.length >= this.#size, "a heap keeps its members");
    slots.set(this.#slots.subarray(0, this.#size));
    this.#slots = slots;
  }
}

/** Smallest pri first, then smallest id. */
export class PriHeap extends SlotHeap {
  /** Returns a heap with the members of another one, which must not be used any more. */
  static insteadOf(other: PriHeap): PriHeap {
    const heap = new PriHeap(other.jobs);
    heap.takeOver(other);
    return heap;
  }

  /** Changes the priority of a member. */
  changePri(slot: number, pri: number): void {
    this.jobs.pageOf(slot).pri[slot & PAGE_MASK] = pri;
    this.settle(slot);
  }

  protected override less(a: number, b: number): boolean {
    const pageA = this.jobs.pages[a >>> PAGE_BITS] as JobPage;
    const pageB = this.jobs.pages[b >>> PAGE_BITS] as JobPage;
    const priA = pageA.pri[a & PAGE_MASK]!;
    const priB = pageB.pri[b & PAGE_MASK]!;
    return priA < priB || (priA === priB && pageA.id[a & PAGE_MASK]! < pageB.id[b & PAGE_MASK]!);
  }
}

/**
 * Ready jobs, the best first. They are also linked in order of arrival, which differs from that of
 * the heap. The links are here rather than in a list of their own, because every put and reserve
 * uses them.
 */
export class ReadyHeap extends PriHeap {
  /** The slot that was added first, or NO_SLOT. */
  first: number = NO_SLOT;
  /** The slot that was added last, or NO_SLOT. */
  last: number = NO_SLOT;

  /** When the first slot was added, ms: its `deadlineAtMs`; Infinity without a slot. */
  get firstSinceMs(): number {
    return this.first === NO_SLOT ? Number.POSITIVE_INFINITY : this.#sinceMs(this.first);
  }

  #sinceMs(slot: number): number {
    return this.jobs.pages[slot >>> PAGE_BITS]!.deadlineAtMs[slot & PAGE_MASK]!;
  }

  /** Sorts the links by time of arrival, after a restore has added the jobs in any order. */
  sortOrder(): void {
    const slots: number[] = [];
    let isInOrder = true;
    for (
      let slot = this.first;
      slot !== NO_SLOT;
      slot = this.jobs.pages[slot >>> PAGE_BITS]!.next[slot & PAGE_MASK]!
    ) {
      if (slots.length > 0 && this.#sinceMs(slots.at(-1)!) > this.#sinceMs(slot)) isInOrder = false;
      slots.push(slot);
    }
    if (isInOrder) return;
    slots.sort((a, b) => this.#sinceMs(a) - this.#sinceMs(b));
    this.first = NO_SLOT;
    this.last = NO_SLOT;
    for (const slot of slots) this.append(slot);
    assert(slots.length === this.size, "each ready job is in the list");
  }

  /** A job that is cheap to remove, or NO_SLOT. */
  get tail(): number {
    return this.size === 0 ? NO_SLOT : this.at(this.size - 1);
  }

  /** The best job, whether or not it may be given now. */
  get best(): number {
    return this.top;
  }

  protected append(slot: number): void {
    const page = this.jobs.pages[slot >>> PAGE_BITS]!;
    const row = slot & PAGE_MASK;
    const { last } = this;
    if (CHECKED)
      assert((last === NO_SLOT) === (this.first === NO_SLOT), "a list with a first job has a last one");
    page.previous[row] = last;
    page.next[row] = NO_SLOT;
    this.last = slot;
    if (last === NO_SLOT) this.first = slot;
    else this.jobs.pages[last >>> PAGE_BITS]!.next[last & PAGE_MASK] = slot;
  }

  override push(slot: number): void {
    super.push(slot);
    this.append(slot);
  }

  override remove(slot: number): void {
    super.remove(slot);
    this.unlink(slot);
  }

  protected unlink(slot: number): void {
    const page = this.jobs.pages[slot >>> PAGE_BITS]!;
    const row = slot & PAGE_MASK;
    const previous = page.previous[row]!;
    const next = page.next[row]!;
    assert((previous === NO_SLOT) === (this.first === slot), "a ready job leaves the list that it is in");
    if (CHECKED) this.#checkLinks(slot, previous, next);
    if (previous === NO_SLOT) this.first = next;
    else this.jobs.pages[previous >>> PAGE_BITS]!.next[previous & PAGE_MASK] = next;
    if (next === NO_SLOT) this.last = previous;
    else this.jobs.pages[next >>> PAGE_BITS]!.previous[next & PAGE_MASK] = previous;
  }

  #checkLinks(slot: number, previous: number, next: number): void {
    const before = previous === NO_SLOT ? slot : this.jobs.pageOf(previous).next[previous & PAGE_MASK]!;
    const behind = next === NO_SLOT ? slot : this.jobs.pageOf(next).previous[next & PAGE_MASK]!;
    assert(before === slot && behind === slot, "the jobs before and after a ready job link back");
    assert((next === NO_SLOT) === (this.last === slot), "only the last ready job has none after it");
  }
}

/** Delayed or held jobs: earliest deadline first, then smallest id. */
export class DeadlineHeap extends SlotHeap {
  /** The earliest deadline in monotonic ms, or Infinity. */
  get soonestMs(): number {
    const slot = this.top;
    return slot === NO_SLOT
      ? Number.POSITIVE_INFINITY
      : this.jobs.pages[slot >>> PAGE_BITS]!.deadlineAtMs[slot & PAGE_MASK]!;
  }

  protected override less(a: number, b: number): boolean {
    const pageA = this.jobs.pages[a >>> PAGE_BITS] as JobPage;
    const pageB = this.jobs.pages[b >>> PAGE_BITS] as JobPage;
    const deadlineA = pageA.deadlineAtMs[a & PAGE_MASK]!;
    const deadlineB = pageB.deadlineAtMs[b & PAGE_MASK]!;
    return (
      deadlineA < deadlineB ||
      (deadlineA === deadlineB && pageA.id[a & PAGE_MASK]! < pageB.id[b & PAGE_MASK]!)
    );
  }
}

// The ready and delayed jobs of a tube that have a TTL, the first to expire first.

export class ExpiryHeap extends IndexedHeap {
  readonly #jobs: JobTable;

  constructor(jobs: JobTable) {
    super();
    this.#jobs = jobs;
  }

  /** When the first job expires, or Infinity. */
  get soonestMs(): number {
    const slot = this.top;
    return slot < 0 ? Number.POSITIVE_INFINITY : this.#expiresAtMs(slot);
  }

  #expiresAtMs(slot: number): number {
    const atMs = this.#jobs.pages[slot >>> PAGE_BITS]!.extras!.expiresAtMs[slot & PAGE_MASK]!;
    if (CHECKED) assert(atMs > 0, "a job among those that expire has a time");
    return atMs;
  }

  protected override less(a: number, b: number): boolean {
    const atA = this.#expiresAtMs(a);
    const atB = this.#expiresAtMs(b);
    if (atA !== atB) return atA < atB;
    const idA = this.#jobs.pages[a >>> PAGE_BITS]!.id[a & PAGE_MASK]!;
    return idA < this.#jobs.pages[b >>> PAGE_BITS]!.id[b & PAGE_MASK]!;
  }

  protected override positionOf(slot: number): number {
    return this.#jobs.pages[slot >>> PAGE_BITS]!.extras!.expiryPosition[slot & PAGE_MASK]!;
  }

  protected override place(slot: number, position: number): void {
    this.#jobs.pages[slot >>> PAGE_BITS]!.extras!.expiryPosition[slot & PAGE_MASK] = position;
  }
}

// Jobs in order of arrival, linked through the job table, so that each can be removed in constant
// time.

/** A list of slots. A job is in at most one such list at a time. */
export class JobList {
  readonly #jobs: JobTable;
  /** The slot that was appended first, or NO_SLOT. */
  first: number = NO_SLOT;
  /** The slot that was appended last, or NO_SLOT. */
  last: number = NO_SLOT;

  constructor(jobs: JobTable) {
    this.#jobs = jobs;
  }

  /**
   * The `deadlineAtMs` of the first slot, for lists in which it means the time of arrival; Infinity
   * without a slot.
   */
  get firstSinceMs(): number {
    const { first } = this;
    return first === NO_SLOT
      ? Number.POSITIVE_INFINITY
      : this.#jobs.pageOf(first).deadlineAtMs[rowOf(first)]!;
  }

  /** Returns the slot after a member, or NO_SLOT. */
  behind(slot: number): number {
    return this.#jobs.pageOf(slot).next[rowOf(slot)]!;
  }

  append(slot: number): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    const { last } = this;
    if (CHECKED) assert(last === NO_SLOT || this.behind(last) === NO_SLOT, "nothing follows the last job");
    page.previous[row] = last;
    page.next[row] = NO_SLOT;
    if (last === NO_SLOT) this.first = slot;
    else this.#jobs.pageOf(last).next[rowOf(last)] = slot;
    this.last = slot;
  }

  remove(slot: number): void {
    const page = this.#jobs.pageOf(slot);
    const row = rowOf(slot);
    const previous = page.previous[row]!;
    const next = page.next[row]!;
    assert((previous === NO_SLOT) === (this.first === slot), "a job leaves the list that it is in");
    if (CHECKED) assert((next === NO_SLOT) === (this.last === slot), "only the last job has none after it");
    if (previous === NO_SLOT) this.first = next;
    else this.#jobs.pageOf(previous).next[rowOf(previous)] = next;
    if (next === NO_SLOT) this.last = previous;
    else this.#jobs.pageOf(next).previous[rowOf(next)] = previous;
  }
}
