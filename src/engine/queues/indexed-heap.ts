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
