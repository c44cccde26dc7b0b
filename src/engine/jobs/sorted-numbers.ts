// The keys of a map in ascending order, for upward walks. Keys mostly arrive in order, and many are
// removed.

import { assert, CHECKED } from "../../base/assert.ts";

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
    assert(count >= 0, "a walk passes keys");
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
