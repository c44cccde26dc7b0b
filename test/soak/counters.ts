// Counters of the summary: operations and events by kind, and delays of replies.

import { build, type Histogram } from "hdr-histogram-js";

export class Counters {
  readonly #counts = new Map<string, number>();
  readonly #micros: Histogram = build({ lowestDiscernibleValue: 1, highestTrackableValue: 120_000_000 });
  /** The slowest reply outside of events. */
  worst: { kind: string; ms: number } = { kind: "none", ms: 0 };

  add(kind: string, count = 1): void {
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + count);
  }

  time(kind: string, ms: number): void {
    this.#micros.recordValue(Math.max(1, Math.round(ms * 1000)));
    if (ms > this.worst.ms) this.worst = { kind, ms };
  }

  /** Kinds with their counts, most frequent first. */
  get all(): [kind: string, count: number][] {
    return [...this.#counts].sort((left, right) => right[1] - left[1]);
  }

  total(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  percentileMs(percentile: number): number {
    return this.#micros.getValueAtPercentile(percentile) / 1000;
  }
}
