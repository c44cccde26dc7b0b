// Times of tubes: selects the measured tubes, sums up all others as `*`, and computes quantiles of
// the last minutes.
//
// The shards count from the first request for a tube; earlier counts stay in the sum. The sum never
// falls, and the counts of a tube that is no longer measured are added to no other series, as with
// the counters of tubes (series-set.ts).

import {
  type Distribution,
  MEASURED_TUBES_MAX,
  TUBE_BOUNDS_SECONDS,
  type TubeTimes,
  WAIT_BOUNDS_SECONDS,
} from "../../message/control.ts";
import { bucketQuantile } from "./bucket-quantile.ts";

/** Quantiles cover a period between this and twice this, ms. */
const RECENT_MS = 5 * 60 * 1000;

const KINDS = ["wait", "hold"] as const;
type Kind = (typeof KINDS)[number];

type Asked = ReadonlyMap<string, TubeTimes>;

/** One label: a tube, or `*`. */
export interface TimesOf {
  readonly tube: string;
  readonly times: TubeTimes;
}

/** Recent waiting or holding times of a tube's jobs, in seconds; null if there was no job. */
export interface RecentTimes {
  readonly count: number;
  readonly p50: number | null;
  readonly p99: number | null;
}

export interface Recent {
  /** The period, in seconds. */
  readonly seconds: number;
  readonly wait: RecentTimes;
  readonly hold: RecentTimes;
}

interface Mark {
  readonly atMs: number;
  readonly times: TubeTimes;
}

/** As for rates: the older mark is in use, the newer one replaces it later. */
interface Marks {
  older: Mark;
  newer: Mark;
}

export class TimeSeries {
  #last: Asked = new Map();
  readonly #marks = new Map<string, Marks>();
  #atMs = 0;
  /** Counts of tubes that are no longer measured. */
  readonly #left: Record<Kind, Distribution> = { wait: none(), hold: none() };
  #reported: Record<Kind, Distribution> = { wait: none(), hold: none() };

  /** Returns the tubes to measure: the first of those that have series. */
  chosen(own: Iterable<string>): string[] {
    return [...own].slice(0, MEASURED_TUBES_MAX);
  }

  get last(): Asked {
    return this.#last;
  }

  /** Takes newer times of the tubes that are measured now. */
  renew(times: Asked, nowMs: number): void {
    for (const [name, last] of this.#last) {
      if (times.has(name)) continue;
      for (const kind of KINDS) this.#left[kind] = sumOf(this.#left[kind], inTubeBounds(last[kind]), 1);
      this.#marks.delete(name);
    }
    this.#last = times;
    this.#atMs = nowMs;
    for (const [name, each] of times) this.#mark(name, { atMs: nowMs, times: each });
  }

  #mark(name: string, mark: Mark): void {
    const marks = this.#marks.get(name);
    if (marks === undefined) this.#marks.set(name, { older: mark, newer: mark });
    else if (mark.atMs - marks.newer.atMs >= RECENT_MS) {
      marks.older = marks.newer;
      marks.newer = mark;
    }
  }

  /** Returns the quantiles of a tube's last minutes; undefined if it isn't measured. */
  recent(name: string): Recent | undefined {
    const last = this.#last.get(name);
    const older = this.#marks.get(name)?.older;
    if (last === undefined || older === undefined) return undefined;
    const of = (kind: Kind): RecentTimes => {
      const counts = sumOf(last[kind], older.times[kind], -1).counts;
      const quantile = (share: number): number | null => bucketQuantile(counts, WAIT_BOUNDS_SECONDS, share);
      const count = counts.reduce((sum, each) => sum + each, 0);
      return { count, p50: quantile(0.5), p99: quantile(0.99) };
    };
    return { seconds: (this.#atMs - older.atMs) / 1000, wait: of("wait"), hold: of("hold") };
  }

  /** Returns the times of each tube, and of all others; `totals` must be older. */
  series(totals: Readonly<Record<Kind, Distribution>>): TimesOf[] {
    const others = { wait: none(), hold: none() };
    for (const kind of KINDS) {
      let rest = sumOf(inTubeBounds(totals[kind]), this.#left[kind], -1);
      for (const times of this.#last.values()) rest = sumOf(rest, inTubeBounds(times[kind]), -1);
      others[kind] = greater(rest, this.#reported[kind]);
    }
    this.#reported = others;
    const own = Array.from(this.#last, ([tube, { wait, hold }]) => ({
      tube,
      times: { wait: inTubeBounds(wait), hold: inTubeBounds(hold) },
    }));
    return [...own, { tube: "*", times: others }];
  }
}

const none = (): Distribution => ({ counts: Array(TUBE_BOUNDS_SECONDS.length + 1).fill(0), sum: 0 });

const sumOf = (a: Distribution, b: Distribution, factor: 1 | -1): Distribution => ({
  counts: a.counts.map((count, at) => count + factor * b.counts[at]!),
  sum: a.sum + factor * b.sum,
});

const greater = (a: Distribution, b: Distribution): Distribution => ({
  counts: a.counts.map((count, at) => Math.max(count, b.counts[at]!)),
  sum: Math.max(a.sum, b.sum),
});

/** Adds the buckets of a shard up to the fewer ones of tubes in metrics. */
function inTubeBounds({ counts, sum }: Distribution): Distribution {
  const fewer = none().counts.slice();
  for (const [at, count] of counts.entries()) {
    const bound = WAIT_BOUNDS_SECONDS[at] ?? Number.POSITIVE_INFINITY;
    const place = TUBE_BOUNDS_SECONDS.findIndex((each) => bound <= each);
    const index = place < 0 ? TUBE_BOUNDS_SECONDS.length : place;
    fewer[index] = fewer[index]! + count;
  }
  return { counts: fewer, sum };
}
