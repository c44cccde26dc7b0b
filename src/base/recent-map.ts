// A map of bounded size that forgets what was set longest ago.
//
// A Map is no queue: deleted entries stay in its table as holes, and to find the oldest entry means to pass them, which costs up to as
// much as the map is long (50 to 140 us with 100,000 entries). Two maps take turns instead: a new entry goes to the younger one, and
// when that is full the older one is dropped as a whole.

export class RecentMap<Key, Value> {
  readonly #halfMax: number;
  #young = new Map<Key, Value>();
  #old = new Map<Key, Value>();

  /** Between `max / 2` and `max` entries are remembered, those that were set last. */
  constructor(max: number) {
    this.#halfMax = Math.ceil(max / 2);
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  has(key: Key): boolean {
    return this.#young.has(key) || this.#old.has(key);
  }

  get(key: Key): Value | undefined {
    return this.#young.get(key) ?? this.#old.get(key);
  }

  set(key: Key, value: Value): void {
    if (this.#young.has(key)) {
      this.#young.set(key, value);
      return;
    }
    if (this.#young.size === this.#halfMax) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#old.delete(key);
    this.#young.set(key, value);
  }

  delete(key: Key): void {
    if (!this.#young.delete(key)) this.#old.delete(key);
  }

  clear(): void {
    this.#young.clear();
    this.#old.clear();
  }
}
