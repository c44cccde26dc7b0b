// Times of tubes: selects the measured tubes, sums up all others as `*`, and computes quantiles of
// the last minutes.
//
// The shards count from the first request for a tube; earlier counts stay in the sum. The sum never
// falls, and the counts of a tube that is no longer measured are added to no other series, as with
// the counters of tubes (time-series.ts).

import { matchesGlob } from "../../base/text.ts";
import {
  type Distribution,
  MEASURED_TUBES_MAX,
  TUBE_BOUNDS_SECONDS,
  type TubeTimes,
  WAIT_BOUNDS_SECONDS,
} from "../../message/control.ts";
import { eachOf } from "../../schema/names.ts";
import { TUBE_COUNTERS, type TubeCounter, TubeField } from "../../schema/tube.ts";
import { AsyncQueue } from "../link/control-client.ts";
import type { TubeEntry } from "./tube-cache.ts";

// Quantile of a histogram, with linear interpolation within a bucket like Prometheus'
// histogram_quantile.

/**
 * Returns the quantile. `counts` has one more element than `bounds`. Returns null if nothing was
 * counted, and the last bound for a value above all bounds.
 */
export function bucketQuantile(
  counts: ArrayLike<number>,
  bounds: readonly number[],
  share: number,
): number | null {
  let all = 0;
  for (let bucket = 0; bucket <= bounds.length; bucket++) all += counts[bucket]!;
  if (all <= 0) return null;
  let below = 0;
  for (const [bucket, bound] of bounds.entries()) {
    const count = counts[bucket]!;
    if (count > 0 && below + count >= all * share) {
      const from = bucket === 0 ? 0 : bounds[bucket - 1]!;
      return from + ((bound - from) * Math.max(0, all * share - below)) / count;
    }
    below += count;
  }
  return bounds.at(-1)!;
}

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

// Selection of the tubes with metric series of their own: the first tubes keep theirs while they
// live, and some minutes longer.
//
// All other tubes are summed up as `*`, which is not a valid tube name. That sum must never fall,
// or Prometheus would mistake it for a restart. So when a tube of the sum gets series of its own,
// its earlier counts stay in the sum and its series begin at 0; all series together still equal the
// server's totals. The counts of ended series are added to no other series: the sum would rise as
// if the work were done again.

/** Time for which a deleted tube keeps its place, ms. */
const KEPT_MS = 5 * 60 * 1000;

export interface MetricsRules {
  /** Maximum of tubes with series of their own. */
  readonly tubesMax: number;
  /** Globs of tubes that take precedence. */
  readonly tubes: readonly string[];
}

type Counters = Record<TubeCounter, number>;

interface Member {
  sequence: number;
  /** Value of the series when this tube replaced an earlier one of the same name. */
  base: Counters;
  /** Counts before the tube was admitted, which are part of the sum. */
  before: Counters;
  /** Counts when the tube was last seen. */
  last: Counters;
  seenAtMs: number;
}

export class SeriesSet {
  readonly #rules: MetricsRules;
  readonly #members = new Map<string, Member>();
  /** Counts of removed members since their admission. */
  readonly #left = zeros();
  /** Highest sequence in the last table. A younger tube was never part of the sum. */
  #newest = Number.NEGATIVE_INFINITY;
  /** Last reported sums of the other tubes. */
  #reported = zeros();

  constructor(rules: MetricsRules) {
    this.#rules = rules;
  }

  has(name: string): boolean {
    return this.#members.has(name);
  }

  /** Applies a new table of tubes. */
  renew(tubes: ReadonlyMap<string, TubeEntry>, nowMs: number): void {
    for (const [name, member] of this.#members) {
      const tube = tubes.get(name);
      if (tube !== undefined) {
        if (tube.get(TubeField.sequence) !== member.sequence) takeOver(member, tube);
        member.last = countersOf(tube);
        member.seenAtMs = nowMs;
      } else if (nowMs - member.seenAtMs > KEPT_MS) this.#remove(name, member);
    }
    this.#admit(tubes, nowMs);
    for (const tube of tubes.values()) this.#newest = Math.max(this.#newest, tube.get(TubeField.sequence));
  }

  /** Admits as many other tubes as there is room for. */
  #admit(tubes: ReadonlyMap<string, TubeEntry>, nowMs: number): void {
    const room = this.#rules.tubesMax - this.#members.size;
    if (room <= 0 || tubes.size === 0) return;
    const others = [...tubes.values()].filter(({ name }) => !this.#members.has(name));
    others.sort(
      (a, b) => this.#rank(a) - this.#rank(b) || a.get(TubeField.sequence) - b.get(TubeField.sequence),
    );
    for (const tube of others.slice(0, room)) {
      const sequence = tube.get(TubeField.sequence);
      const last = countersOf(tube);
      this.#members.set(tube.name, {
        sequence,
        base: zeros(),
        before: sequence > this.#newest ? zeros() : last,
        last,
        seenAtMs: nowMs,
      });
    }
  }

  #rank({ name }: TubeEntry): number {
    const at = this.#rules.tubes.findIndex((glob) => matchesGlob(glob, name));
    return at < 0 ? this.#rules.tubes.length : at;
  }

  #remove(name: string, member: Member): void {
    for (const each of TUBE_COUNTERS) this.#left[each] += reportedOf(member, each);
    this.#members.delete(name);
  }

  /**
   * Returns the counters of all tubes with series, including deleted tubes that keep their place.
   */
  own(): Map<string, Counters> {
    return new Map(Array.from(this.#members, ([name, member]) => [name, reportedOfAll(member)]));
  }

  /**
   * Returns the counters of all tubes without series. `totals` must be older than the table of
   * tubes: counts in newer totals that the table lacks would appear here, and later again in their
   * tube's series. Without totals, it returns the last result.
   */
  others(totals: Counters | undefined): Counters {
    if (totals === undefined) return this.#reported;
    const sums = { ...totals };
    for (const each of TUBE_COUNTERS) {
      sums[each] -= this.#left[each];
      for (const member of this.#members.values()) sums[each] -= reportedOf(member, each);
      sums[each] = Math.max(sums[each], this.#reported[each]);
    }
    this.#reported = sums;
    return sums;
  }
}

const reportedOf = ({ base, before, last }: Member, counter: TubeCounter): number =>
  base[counter] + last[counter] - before[counter];

const reportedOfAll = (member: Member): Counters => eachOf(TUBE_COUNTERS, (name) => reportedOf(member, name));

/**
 * Continues a series for a tube that was created again. No other series contains the new tube's
 * counts.
 */
function takeOver(member: Member, tube: TubeEntry): void {
  member.base = reportedOfAll(member);
  member.before = zeros();
  member.sequence = tube.get(TubeField.sequence);
}

function zeros(): Counters {
  return eachOf(TUBE_COUNTERS, () => 0);
}

function countersOf(tube: TubeEntry): Counters {
  return eachOf(TUBE_COUNTERS, (name) => tube.get(TubeField[name]));
}

// Tubes with their own series and times: the same for all listeners, for metrics, and for pages
// that show times.

export class MeasuredTubes {
  readonly series: SeriesSet;
  readonly times: TimeSeries = new TimeSeries();
  /**
   * A scrape takes several MB of heap while it is built; a hundred at once would fill the heap.
   * Also, an older answer of the shards must not follow a newer one.
   */
  readonly turns: AsyncQueue = new AsyncQueue();
  /** Whether a page has asked. Until then, only scrapes measure. */
  isWanted = false;

  constructor(rules: MetricsRules) {
    this.series = new SeriesSet(rules);
  }

  /** Returns the quantiles of a tube's last minutes; null if it isn't measured (yet). */
  recent(name: string): Recent | null {
    this.isWanted = true;
    return this.times.recent(name) ?? null;
  }
}
