// History of sync durations of the log over the last hour, in steps of 10 s: counts per bucket, for
// quantiles.

import { SYNC_BOUNDS_SECONDS } from "../../message/log-figures.ts";
import { bucketQuantile } from "./bucket-quantile.ts";

export const SYNC_STEP_SECONDS = 10;
const POINTS = 361;
const BUCKETS = SYNC_BOUNDS_SECONDS.length + 1;

/** Null if there was no sync. */
type SyncPoint = readonly [seconds: number, value: number | null];

export class SyncHistory {
  /** Ring of points with the sums since the start, as the binlog thread counts them. */
  readonly #sums = new Float64Array(POINTS * BUCKETS);
  readonly #atMs = new Float64Array(POINTS);
  #points = 0;

  /** Records the counts so far. */
  note(counts: ArrayLike<number>, wallMs: number): void {
    const place = this.#points++ % POINTS;
    this.#atMs[place] = wallMs;
    for (let bucket = 0; bucket < BUCKETS; bucket++) this.#sums[place * BUCKETS + bucket] = counts[bucket]!;
  }

  /**
   * Returns a point for each step since a moment, oldest first: syncs per second, and the median
   * and 99th percentile of their durations, s.
   */
  since(sinceMs: number): Record<"syncs" | "p50" | "p99", SyncPoint[]> {
    const series: Record<"syncs" | "p50" | "p99", SyncPoint[]> = { syncs: [], p50: [], p99: [] };
    for (let point = this.#first + 1; point < this.#points; point++) {
      const [beganMs, endedMs] = [this.#atMs[(point - 1) % POINTS]!, this.#atMs[point % POINTS]!];
      if (endedMs < sinceMs || endedMs <= beganMs) continue;
      const counts = this.#between(point - 1, point);
      const seconds = Math.round(endedMs) / 1000;
      const syncs = counts.reduce((sum, count) => sum + count, 0);
      series.syncs.push([seconds, (syncs * 1000) / (endedMs - beganMs)]);
      series.p50.push([seconds, bucketQuantile(counts, SYNC_BOUNDS_SECONDS, 0.5)]);
      series.p99.push([seconds, bucketQuantile(counts, SYNC_BOUNDS_SECONDS, 0.99)]);
    }
    return series;
  }

  /** Returns count and 99th percentile (s) of all syncs since a moment. */
  summary(sinceMs: number): { readonly count: number; readonly p99Seconds: number } {
    let from = this.#first;
    while (from < this.#points - 1 && this.#atMs[from % POINTS]! < sinceMs) from++;
    if (from >= this.#points - 1) return { count: 0, p99Seconds: 0 };
    const counts = this.#between(from, this.#points - 1);
    return {
      count: counts.reduce((sum, count) => sum + count, 0),
      p99Seconds: bucketQuantile(counts, SYNC_BOUNDS_SECONDS, 0.99) ?? 0,
    };
  }

  get #first(): number {
    return Math.max(0, this.#points - POINTS);
  }

  #between(from: number, to: number): Float64Array {
    const [before, after] = [(from % POINTS) * BUCKETS, (to % POINTS) * BUCKETS];
    return Float64Array.from(
      { length: BUCKETS },
      (_, bucket) => this.#sums[after + bucket]! - this.#sums[before + bucket]!,
    );
  }
}
