// Counts of values by bucket, as in a Prometheus histogram, but not cumulative.

import { assert } from "./assert.ts";

export class BucketCounts {
  /** One for each bound, and one for values above the last. */
  readonly counts: number[];
  sum = 0;
  readonly #bounds: readonly number[];

  /** `bounds` are the upper ends of the buckets, which include them. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  add(value: number): void {
    assert(value >= 0, "times and sizes are not negative");
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at++;
    this.counts[at]!++;
    this.sum += value;
  }

  copy(): { counts: number[]; sum: number } {
    return { counts: [...this.counts], sum: this.sum };
  }
}
