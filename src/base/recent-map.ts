// A map of bounded size that forgets the oldest entries.
//
// Deleted entries of a Map remain in its table as holes, and a new iterator skips them all to find
// the oldest entry, which costs 50 to 300 us with 100,000 entries. This map keeps its iterator, so
// each hole is skipped once. But an idle iterator keeps alive every table that the Map has since
// outgrown, so it is replaced after some changes.

/** An iterator is replaced after as many changes as there are entries, and this many more. */
const RESTING_CHANGES = 64;

export class RecentMap<Key extends string | number, Value> {
  readonly #max: number;
  /** Oldest first. */
  readonly #entries = new Map<Key, Value>();
  /** All keys that it returned are gone or were set again, except `#oldest`. */
  #keys = this.#entries.keys();
  #oldest: Key | undefined;
  /** Changes since the iterator was created, apart from those that advanced it. */
  #changes = 0;

  /** Remembers the latest `max` entries. */
  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The key that was set longest ago, or undefined if there is none. */
  get oldest(): Key | undefined {
    if (this.#oldest === undefined) {
      let next = this.#keys.next();
      if (next.done === true) {
        this.#keys = this.#entries.keys();
        next = this.#keys.next();
      }
      this.#oldest = next.value;
    }
    return this.#oldest;
  }

  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  /** Makes the entry the youngest. */
  set(key: Key, value: Value): void {
    this.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size > this.#max) this.delete(this.oldest!);
    else if (++this.#changes > this.#entries.size + RESTING_CHANGES) this.#rewind();
  }

  delete(key: Key): void {
    if (key === this.#oldest) this.#oldest = undefined;
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
    this.#rewind();
  }

  #rewind(): void {
    this.#keys = this.#entries.keys();
    this.#oldest = undefined;
    this.#changes = 0;
  }
}
