// History of the totals over all shards: one point per second for an hour, and one per minute for a
// day.

import type { BatchFigures, Distribution, ShardTotals } from "../../message/control.ts";
import { SYNC_BOUNDS_SECONDS } from "../../message/log-figures.ts";
import { JOB_STATES, SERVER_HISTORY } from "../../schema/tube.ts";
import type { ControlClient } from "../link/control-client.ts";
import { bucketQuantile } from "./time-series.ts";

/** Series of the history, in storage order. */
export const HISTORY_SERIES = [...JOB_STATES, "waiting", ...SERVER_HISTORY] as const;
export type HistorySeries = (typeof HISTORY_SERIES)[number];

/** The first series that is a counter. */
const FIRST_COUNTER = HISTORY_SERIES.length - SERVER_HISTORY.length;

/** Numbers of a saved point: its time, and its values. */
const ROW = 1 + HISTORY_SERIES.length;
const valuesAt = (rows: Float64Array, from: number): number[] =>
  Array.from(rows.subarray(from + 1, from + ROW));

const HOUR_SECONDS = 3600;
const DAY_MINUTES = 1440;

/** A ring of points at a fixed interval. */
class Points {
  readonly stepSeconds: number;
  readonly #values: Float64Array;
  readonly #atMs: Float64Array;
  #next = 0;
  #count = 0;

  constructor(points: number, stepSeconds: number) {
    this.stepSeconds = stepSeconds;
    this.#values = new Float64Array(points * HISTORY_SERIES.length);
    this.#atMs = new Float64Array(points);
  }

  get seconds(): number {
    return this.#atMs.length * this.stepSeconds;
  }

  /** Adds a point, unless the last one is younger than a step. */
  take(atMs: number, values: readonly number[]): void {
    const points = this.#atMs.length;
    const lastAtMs =
      this.#count === 0 ? Number.NEGATIVE_INFINITY : this.#atMs[(this.#next + points - 1) % points]!;
    // Half a second of slack, since a timer may fire early.
    if (atMs - lastAtMs < this.stepSeconds * 1000 - 500) return;
    this.#atMs[this.#next] = atMs;
    this.#values.set(values, this.#next * HISTORY_SERIES.length);
    this.#next = (this.#next + 1) % points;
    this.#count = Math.min(this.#count + 1, points);
  }

  /** Returns all points, oldest first: each its time, and its values. */
  get rows(): Float64Array {
    const points = this.#atMs.length;
    const rows = new Float64Array(this.#count * ROW);
    for (let index = 0; index < this.#count; index++) {
      const at = (this.#next + points - this.#count + index) % points;
      rows[index * ROW] = this.#atMs[at]!;
      for (let series = 0; series < HISTORY_SERIES.length; series++)
        rows[index * ROW + 1 + series] = this.#values[at * HISTORY_SERIES.length + series]!;
    }
    return rows;
  }

  /** Takes the points of an earlier run, except those in the future, whose clock was wrong. */
  restore(rows: Float64Array, nowMs: number): void {
    for (let from = 0; from + ROW <= rows.length; from += ROW)
      if (rows[from]! < nowMs) this.take(rows[from]!, valuesAt(rows, from));
  }

  /** Returns the growth of a series from its first value since `sinceMs` to the last. */
  grown(sinceMs: number, series: number): number {
    const points = this.#atMs.length;
    const value = (back: number): number =>
      this.#values[((this.#next + points - back) % points) * HISTORY_SERIES.length + series]!;
    for (let back = this.#count; back > 0; back--)
      if (this.#atMs[(this.#next + points - back) % points]! >= sinceMs) return value(1) - value(back);
    return 0;
  }

  /** Yields time (wall-clock ms) and value of one series since `sinceMs`, oldest first. */
  *since(sinceMs: number, series: number): Iterable<[atMs: number, value: number]> {
    const points = this.#atMs.length;
    for (let back = this.#count; back > 0; back--) {
      const at = (this.#next + points - back) % points;
      if (this.#atMs[at]! >= sinceMs)
        yield [this.#atMs[at]!, this.#values[at * HISTORY_SERIES.length + series]!];
    }
  }
}

export class StatsHistory {
  /** Undefined until the shards have answered once. */
  last: ShardTotals | undefined;
  readonly #control: ControlClient;
  readonly #wallMs: () => number;
  readonly #bySecond = new Points(HOUR_SECONDS, 1);
  readonly #byMinute = new Points(DAY_MINUTES, 60);
  #asking: Promise<ShardTotals> | undefined;
  /**
   * Final counters of earlier runs. Those of the shards start at 0 with each run, and may have
   * passed the earlier ones by the first answer.
   */
  #base: readonly number[] = HISTORY_SERIES.map(() => 0);

  constructor(control: ControlClient, wallMs: () => number) {
    this.#control = control;
    this.#wallMs = wallMs;
  }

  /** Asks the shards and records the totals. Concurrent callers share one answer. */
  ask(): Promise<ShardTotals> {
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #ask(): Promise<ShardTotals> {
    const totals = sumOf(await this.#control.askAll("totals", undefined));
    this.last = totals;
    const now = [
      ...JOB_STATES.map((state) => totals.jobs[state]),
      totals.waiting,
      ...SERVER_HISTORY.map((name) => totals[name]),
    ];
    const values = now.map((value, series) => value + this.#base[series]!);
    this.#bySecond.take(this.#wallMs(), values);
    this.#byMinute.take(this.#wallMs(), values);
    return totals;
  }

  /** Returns all points for saving: those of each second, and those of each minute. */
  get saved(): SavedTotals {
    return { bySecond: this.#bySecond.rows, byMinute: this.#byMinute.rows };
  }

  /** Takes the points of an earlier run. The counters continue from there. */
  restore({ bySecond, byMinute }: SavedTotals): void {
    this.#bySecond.restore(bySecond, this.#wallMs());
    this.#byMinute.restore(byMinute, this.#wallMs());
    const last = bySecond.length >= ROW ? bySecond : byMinute;
    if (last.length < ROW) return;
    this.#base = valuesAt(last, last.length - ROW).map((value, series) =>
      series < FIRST_COUNTER ? 0 : value,
    );
  }

  /** Returns the growth of a counter over the last `seconds`, at most an hour. */
  grown(seconds: number, series: HistorySeries): number {
    return this.#bySecond.grown(this.#wallMs() - seconds * 1000, HISTORY_SERIES.indexOf(series));
  }

  /**
   * Returns the last `seconds` of some series as `[wall-clock seconds, value]`, oldest first.
   * Counters are sums since the start.
   */
  history(
    seconds: number,
    series: readonly HistorySeries[],
  ): { step: number; series: Record<string, [number, number][]> } {
    const points = seconds <= this.#bySecond.seconds ? this.#bySecond : this.#byMinute;
    const sinceMs = this.#wallMs() - seconds * 1000;
    const listed = series.map((name) => {
      const values = points.since(sinceMs, HISTORY_SERIES.indexOf(name));
      return [
        name,
        Array.from(values, ([atMs, value]): [number, number] => [Math.round(atMs) / 1000, value]),
      ] as const;
    });
    return { step: points.stepSeconds, series: Object.fromEntries(listed) };
  }
}

export interface SavedTotals {
  /** For each point the time (wall clock, ms), and the values of all series. */
  readonly bySecond: Float64Array;
  readonly byMinute: Float64Array;
}

/** Combines values of shards that aren't summed. Any one shard knows all batches. */
const COMBINED: Partial<Record<string, (a: never, b: never) => unknown>> = {
  nowMs: Math.max,
  scheduleLateMs: Math.max,
  scheduleNextMs: Math.min,
  batches: (first: BatchFigures) => first,
} satisfies Partial<Record<keyof ShardTotals, unknown>>;

function sumOf([first, ...others]: readonly ShardTotals[]): ShardTotals {
  const sum: Record<string, unknown> = { ...first };
  for (const each of others)
    for (const [key, value] of Object.entries(each))
      sum[key] = (COMBINED[key] ?? addValues)(sum[key] as never, value as never);
  return sum as Readonly<ShardTotals>;
}

function addValues(a: unknown, b: unknown): unknown {
  if (typeof a === "number") return a + (b as number);
  if ("counts" in (a as object)) return addDistributions(a as Distribution, b as Distribution);
  const jobs = b as Record<string, number>;
  return Object.fromEntries(
    Object.entries(a as Record<string, number>).map(([key, value]) => [key, value + jobs[key]!]),
  );
}

function addDistributions(a: Distribution, b: Distribution): Distribution {
  return { counts: a.counts.map((count, index) => count + b.counts[index]!), sum: a.sum + b.sum };
}

// History of sync durations of the log over the last hour, in steps of 10 s: counts per bucket, for
// quantiles.

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
