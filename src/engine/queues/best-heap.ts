// A binary heap of any entries, the best one first.

import { assert } from "../../base/assert.ts";

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
