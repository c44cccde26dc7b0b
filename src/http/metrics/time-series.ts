// Times of tubes: which tubes have them, and the sum of all others as `*`.
//
// The shards count from the moment when a tube is first asked for; what was before stays in the
// sum. The sum never falls, and the counts of a tube that is measured no more are added to no other
// series, as with the counters of tubes (series-set.ts).

import {
  type Distribution,
  MEASURED_TUBES_MAX,
  type ShardTotals,
  TUBE_BOUNDS_SECONDS,
  type TubeTimes,
  WAIT_BOUNDS_SECONDS,
} from "../../message/control.ts";

const KINDS = ["wait", "hold"] as const;
type Kind = (typeof KINDS)[number];

export type Asked = ReadonlyMap<string, TubeTimes>;

/** One label: a tube, or `*`. */
export interface TimesOf {
  readonly tube: string;
  readonly times: TubeTimes;
}

export class TimeSeries {
  #last: Asked = new Map();
  /** What tubes that are measured no more had. */
  readonly #left: Record<Kind, Distribution> = { wait: none(), hold: none() };
  #reported: Record<Kind, Distribution> = { wait: none(), hold: none() };

  /** Returns the tubes to measure: the first of those that have series. */
  chosen(own: Iterable<string>): string[] {
    return [...own].slice(0, MEASURED_TUBES_MAX);
  }

  get last(): Asked {
    return this.#last;
  }

  /** Takes newer times, of the tubes that are measured now. */
  renew(times: Asked): void {
    for (const [name, last] of this.#last)
      if (!times.has(name))
        for (const kind of KINDS) this.#left[kind] = sumOf(this.#left[kind], last[kind], 1);
    this.#last = times;
  }

  /** Returns the times of each tube, and of all others; `totals` must be older. */
  series(totals: Readonly<Record<Kind, Distribution>>): TimesOf[] {
    const others = { wait: none(), hold: none() };
    for (const kind of KINDS) {
      let rest = sumOf(inTubeBounds(totals[kind]), this.#left[kind], -1);
      for (const times of this.#last.values()) rest = sumOf(rest, times[kind], -1);
      others[kind] = greater(rest, this.#reported[kind]);
    }
    this.#reported = others;
    return [...Array.from(this.#last, ([tube, times]) => ({ tube, times })), { tube: "*", times: others }];
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

/** Adds the buckets of a shard's totals up to the fewer ones of tubes. */
function inTubeBounds({ counts, sum }: ShardTotals["wait"]): Distribution {
  const fewer = none().counts.slice();
  for (const [at, count] of counts.entries()) {
    const bound = WAIT_BOUNDS_SECONDS[at] ?? Number.POSITIVE_INFINITY;
    const place = TUBE_BOUNDS_SECONDS.findIndex((each) => bound <= each);
    const index = place < 0 ? TUBE_BOUNDS_SECONDS.length : place;
    fewer[index] = fewer[index]! + count;
  }
  return { counts: fewer, sum };
}
