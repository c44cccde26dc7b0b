// A binary heap of small integers that tracks their positions, so that any of them can be removed.

import { assert, CHECKED } from "../../base/assert.ts";

const CAPACITY_MIN = 16;

/** Base class of heaps; subclasses define the order and store the positions. */
export abstract class IndexedHeap {
  #members = new Int32Array(0);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The first member in order, or -1. */
  get top(): number {
    return this.#size === 0 ? -1 : this.#members[0]!;
  }

  /** Returns the member at a position, 0 to `size - 1`, in no particular order. */
  at(position: number): number {
    assert(position >= 0 && position < this.#size, "a position is within the heap");
    return this.#members[position]!;
  }

  /**
   * Makes room for one more member. Throws RangeError when memory is exhausted; a following `push`
   * then does not throw.
   */
  makeRoom(): void {
    if (this.#size >= this.#members.length) this.#resize(Math.max(CAPACITY_MIN, this.#members.length * 2));
  }

  push(member: number): void {
    if (CHECKED) assert(this.positionOf(member) < 0, "a member is in a heap once");
    this.makeRoom();
    this.#siftUp(this.#size++, member);
  }

  /** Removes a member and sets its position to -1. */
  remove(member: number): void {
    const position = this.positionOf(member);
    assert(
      position < this.#size && this.#members[position] === member,
      "a member leaves the heap that it is in",
    );
    const last = this.#members[--this.#size]!;
    if (position < this.#size) {
      if (position > 0 && this.less(last, this.#members[(position - 1) >> 1]!)) this.#siftUp(position, last);
      else this.#siftDown(position, last);
    }
    this.place(member, -1);
    if (this.#members.length > CAPACITY_MIN && this.#size < this.#members.length >> 2) this.#shrink();
  }

  protected abstract less(a: number, b: number): boolean;
  protected abstract positionOf(member: number): number;
  protected abstract place(member: number, position: number): void;

  #put(position: number, member: number): void {
    if (CHECKED) assert(position < this.#size, "a member is put within the heap");
    this.#members[position] = member;
    this.place(member, position);
  }

  #siftUp(from: number, member: number): void {
    let position = from;
    while (position > 0) {
      const parent = (position - 1) >> 1;
      const above = this.#members[parent]!;
      if (!this.less(member, above)) break;
      this.#put(position, above);
      position = parent;
    }
    this.#put(position, member);
  }

  #siftDown(from: number, member: number): void {
    const size = this.#size;
    let position = from;
    for (;;) {
      let child = position * 2 + 1;
      if (child >= size) break;
      if (child + 1 < size && this.less(this.#members[child + 1]!, this.#members[child]!)) child++;
      const below = this.#members[child]!;
      if (!this.less(below, member)) break;
      this.#put(position, below);
      position = child;
    }
    this.#put(position, member);
  }

  /** Shrinks the array. Without memory for a smaller one, the large one stays. */
  #shrink(): void {
    try {
      this.#resize(this.#members.length >> 1);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }

  #resize(capacity: number): void {
    assert(capacity >= this.#size, "a heap keeps its members");
    const members = new Int32Array(capacity);
    members.set(this.#members.subarray(0, this.#size));
    this.#members = members;
  }
}

// A binary heap of any entries, the best one first.

/** The place of an entry may change only while it is the first. */
export class BestHeap<Entry> {
  readonly #entries: Entry[] = [];
  readonly #goesBefore: (a: Entry, b: Entry) => boolean;

  constructor(goesBefore: (a: Entry, b: Entry) => boolean) {
    this.#goesBefore = goesBefore;
  }

  get first(): Entry | undefined {
    return this.#entries[0];
  }

  push(entry: Entry): void {
    const entries = this.#entries;
    let position = entries.length;
    entries.push(entry);
    while (position > 0) {
      const parent = (position - 1) >> 1;
      if (!this.#goesBefore(entry, entries[parent]!)) break;
      entries[position] = entries[parent]!;
      position = parent;
    }
    entries[position] = entry;
  }

  /** Removes and returns the first entry. */
  pop(): Entry | undefined {
    const { first } = this;
    const last = this.#entries.pop();
    if (this.#entries.length > 0) this.#siftDown(last!);
    return first;
  }

  /** Updates the heap after the place of the first entry has changed. */
  firstChanged(): void {
    assert(this.first !== undefined, "a changed entry exists");
    this.#siftDown(this.first);
  }

  /** Sifts an entry down from the top. */
  #siftDown(entry: Entry): void {
    const entries = this.#entries;
    let position = 0;
    for (let child = 1; child < entries.length; child = position * 2 + 1) {
      if (child + 1 < entries.length && this.#goesBefore(entries[child + 1]!, entries[child]!)) child++;
      if (!this.#goesBefore(entries[child]!, entry)) break;
      entries[position] = entries[child]!;
      position = child;
    }
    entries[position] = entry;
  }
}

// Caches the earliest deadline of several sources of rarely used timers, because every command
// reads it.

interface Source {
  /** Monotonic ms, or Infinity. */
  readonly nextAtMs: number;
}

export class EarliestTime {
  nextAtMs: number = Number.POSITIVE_INFINITY;
  readonly #sources: Source[] = [];

  /** Adds a source, which must call `changed` after each change. */
  join(source: Source): void {
    assert(!this.#sources.includes(source), "a source joins once");
    this.#sources.push(source);
  }

  changed(): void {
    let earliest = Number.POSITIVE_INFINITY;
    for (const { nextAtMs } of this.#sources) {
      if (CHECKED) assert(!Number.isNaN(nextAtMs), "a deadline is a time");
      if (nextAtMs < earliest) earliest = nextAtMs;
    }
    this.nextAtMs = earliest;
  }
}

// A heap of timers, each with an owner: tubes and sessions that have to be checked at some time.

/** A timer of an owner, in at most one heap. */
export class Timer<Owner> {
  readonly owner: Owner;
  /** Monotonic ms. */
  atMs: number = Number.POSITIVE_INFINITY;
  /** Position in its heap, or -1 while it is not set. */
  position = -1;

  constructor(owner: Owner) {
    this.owner = owner;
  }
}

/** Timers, the earliest first. */
export class TimerHeap<Owner> {
  /** When the earliest timer is due, or Infinity. Read by every command. */
  nextAtMs: number = Number.POSITIVE_INFINITY;
  readonly #timers: Timer<Owner>[] = [];
  readonly #earliest: EarliestTime | undefined;

  /** Keeps `earliest` up to date with `nextAtMs`. */
  constructor(earliest?: EarliestTime) {
    this.#earliest = earliest;
    earliest?.join(this);
  }

  /** The owner of the earliest timer. */
  get first(): Owner | undefined {
    return this.#timers[0]?.owner;
  }

  /** Sets, moves or (with Infinity) clears a timer. */
  set(timer: Timer<Owner>, atMs: number): void {
    if (CHECKED) assert(!Number.isNaN(atMs), "a timer is set to a time");
    if (timer.atMs === atMs) return;
    const before = timer.atMs;
    timer.atMs = atMs;
    if (atMs === Number.POSITIVE_INFINITY) this.#remove(timer);
    else if (timer.position < 0) this.#siftUp(this.#timers.length, timer);
    else if (atMs < before) this.#siftUp(timer.position, timer);
    else this.#siftDown(timer.position, timer);
    this.nextAtMs = this.#timers[0]?.atMs ?? Number.POSITIVE_INFINITY;
    if (CHECKED) assert(this.nextAtMs <= atMs, "no timer is due before the earliest");
    this.#earliest?.changed();
  }

  #remove(timer: Timer<Owner>): void {
    const position = timer.position;
    assert(this.#timers[position] === timer, "a timer leaves the heap that it is in");
    timer.position = -1;
    const last = this.#timers.pop()!;
    if (last === timer) return;
    if (position > 0 && last.atMs < this.#timers[(position - 1) >> 1]!.atMs) this.#siftUp(position, last);
    else this.#siftDown(position, last);
  }

  #siftUp(from: number, timer: Timer<Owner>): void {
    if (CHECKED) assert(from <= this.#timers.length, "a timer goes up from within the heap");
    let position = from;
    while (position > 0) {
      const parent = this.#timers[(position - 1) >> 1]!;
      if (parent.atMs <= timer.atMs) break;
      this.#timers[position] = parent;
      parent.position = position;
      position = (position - 1) >> 1;
    }
    this.#timers[position] = timer;
    timer.position = position;
  }

  #siftDown(from: number, timer: Timer<Owner>): void {
    assert(timer.atMs < Number.POSITIVE_INFINITY, "only a timer that is set is in the heap");
    let position = from;
    for (;;) {
      let child = position * 2 + 1;
      if (child >= this.#timers.length) break;
      if (child + 1 < this.#timers.length && this.#timers[child + 1]!.atMs < this.#timers[child]!.atMs)
        child++;
      const below = this.#timers[child]!;
      if (below.atMs >= timer.atMs) break;
      this.#timers[position] = below;
      below.position = position;
      position = child;
    }
    this.#timers[position] = timer;
    timer.position = position;
  }
}
