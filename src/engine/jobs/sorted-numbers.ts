// The keys of a map in ascending order, for walks upwards. They come in that order, mostly, and many go.

/** Keys that have gone may stay in the array, as many as there are keys, and these. */
const GONE_MAX = 16;

/**
 * An array beside the map, which the owner of both keeps. What goes stays in it until half of it has gone: to take the first
 * of many out again and again would move the rest each time. What comes out of order is put in its place with the next walk,
 * all at once: a log brings jobs back in any order.
 */
export class SortedNumbers {
  #numbers: number[] = [];
  readonly #keys: ReadonlyMap<number, unknown>;
  #isInOrder = true;

  constructor(keys: ReadonlyMap<number, unknown>) {
    this.#keys = keys;
  }

  /** The map has a new key. */
  add(number: number): void {
    const last = this.#numbers.at(-1);
    if (last === number) return;
    if (last !== undefined && last > number) this.#isInOrder = false;
    this.#numbers.push(number);
  }

  /** The map has lost a key. */
  noteLoss(): void {
    if (this.#numbers.length > 2 * this.#keys.size + GONE_MAX) this.#tidy();
  }

  /** The smallest that is not below `low`. */
  from(low: number): number | undefined {
    const numbers = this.#ordered();
    for (let at = this.#search(low); at < numbers.length; at++)
      if (this.#keys.has(numbers[at]!)) return numbers[at];
    return undefined;
  }

  /** The greatest below `high`. */
  before(high: number): number | undefined {
    const numbers = this.#ordered();
    for (let at = this.#search(high) - 1; at >= 0; at--) if (this.#keys.has(numbers[at]!)) return numbers[at];
    return undefined;
  }

  /** The greatest. */
  get last(): number | undefined {
    return this.before(Number.POSITIVE_INFINITY);
  }

  #ordered(): readonly number[] {
    if (!this.#isInOrder) this.#tidy();
    return this.#numbers;
  }

  #tidy(): void {
    this.#numbers = [...this.#keys.keys()];
    this.#numbers.sort((a, b) => a - b);
    this.#isInOrder = true;
  }

  /** The first position whose number is not below `low`. */
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
