// Metrics of tubes: those with series of their own, the operator's groups, and the rest as `*`.

import { type ShardTotals, TUBE_BOUNDS_SECONDS, type TubeTimes } from "../../message/control.ts";
import { eachOf, wordOf } from "../../schema/names.ts";
import {
  COUNTERS,
  GAUGES,
  JOB_STATES,
  OLDEST,
  OLDEST_NAMES,
  TUBE_COUNTERS,
  TUBE_GAUGES,
  type TubeCounter,
  TubeField,
} from "../../schema/tube.ts";
import type { TimesOf } from "../state/time-series.ts";
import type { TubeEntry } from "../state/tube-cache.ts";
import { counter, type Family, gauge, histogram, type Sample } from "./metrics-text.ts";

/** Label of all tubes without series; no valid tube name. */
const OTHERS = "*";

type Counts = Record<TubeCounter, number>;

/** One label: a single tube or a sum of several. */
interface TubeSeries {
  readonly tube: string;
  readonly entries: readonly TubeEntry[];
  /** Counters to use instead of the sum of the entries. */
  readonly counters?: Counts;
}

const sumOf = ({ entries }: TubeSeries, field: number): number =>
  entries.reduce((sum, entry) => sum + entry.get(field), 0);

/** Returns the seconds since the earliest timestamp, or 0 if there is none. */
const ageOf = ({ entries }: TubeSeries, field: number, nowMs: number): number => {
  const oldest = entries.reduce(
    (soonest, entry) => Math.min(soonest, entry.get(field)),
    Number.POSITIVE_INFINITY,
  );
  return oldest === Number.POSITIVE_INFINITY ? 0 : Math.max(0, nowMs - oldest) / 1000;
};

const pauseOf = ({ entries }: TubeSeries, nowMs: number): number =>
  entries.reduce((most, entry) => Math.max(most, (entry.get(TubeField.pauseUntilMs) - nowMs) / 1000), 0);

export function* tubeFamilies(series: readonly TubeSeries[], nowMs: number): Iterable<Family> {
  const samplesOf = (value: (each: TubeSeries) => number): Sample[] =>
    series.map((each) => ({ value: value(each), labels: { tube: each.tube } }));
  yield gauge(
    "tube_jobs",
    "Jobs of a tube by state.",
    series.flatMap((each) =>
      JOB_STATES.map(
        (state): Sample => ({ value: sumOf(each, TubeField[state]), labels: { tube: each.tube, state } }),
      ),
    ),
  );
  for (const name of OLDEST_NAMES)
    yield gauge(
      `tube_${wordOf(name, "_")}_seconds`,
      OLDEST[name].replace(/\.$/, "; 0 without one."),
      samplesOf((each) => ageOf(each, TubeField[`${name}AtMs`], nowMs)),
    );
  for (const name of TUBE_GAUGES)
    yield gauge(
      `tube_${wordOf(name, "_")}`,
      GAUGES[name],
      samplesOf((each) => sumOf(each, TubeField[name])),
    );
  yield gauge(
    "tube_holds_dead",
    "1 for a dead-letter tube with a ready job: its jobs died elsewhere.",
    samplesOf((each) => sumOf(each, TubeField.holdsDead)),
  );
  yield gauge(
    "tube_lost_job_disconnects",
    "How often the worker's connection ended during the job that lately lost the most workers; 0 without one.",
    samplesOf(({ entries }) =>
      entries.reduce((most, entry) => Math.max(most, entry.get(TubeField.lostJobDisconnects)), 0),
    ),
  );
  yield gauge(
    "tube_pause_seconds",
    "Remaining time of its pause.",
    samplesOf((each) => pauseOf(each, nowMs)),
  );
  for (const name of TUBE_COUNTERS)
    yield counter(
      `tube_${wordOf(name, "_")}`,
      COUNTERS[name].says,
      samplesOf((each) => each.counters?.[name] ?? sumOf(each, TubeField[name])),
    );
}

/** Yields how long jobs of tubes wait and are held. */
export function* timeFamilies(series: readonly TimesOf[]): Iterable<Family> {
  const of = (kind: keyof TubeTimes) =>
    series.map(({ tube, times }) => ({ ...times[kind], labels: { tube } }));
  yield histogram("tube_wait_seconds", "Time from ready to reserved.", TUBE_BOUNDS_SECONDS, of("wait"));
  yield histogram(
    "tube_hold_seconds",
    "Time from reserved, or the last touch, to deleted, released or buried.",
    TUBE_BOUNDS_SECONDS,
    of("hold"),
  );
}

/** Yields how many of all tubes, with or without series, need attention. */
export function* tubeStateFamilies(tubes: ReadonlyMap<string, TubeEntry>, nowMs: number): Iterable<Family> {
  let [unwatched, paused, deadLetter] = [0, 0, 0];
  for (const entry of tubes.values()) {
    const isPaused = entry.get(TubeField.pauseUntilMs) > nowMs;
    const holdsDead = entry.get(TubeField.holdsDead) > 0;
    const hasWatchers = entry.get(TubeField.watchers) > 0;
    paused += Number(isPaused);
    deadLetter += Number(holdsDead);
    unwatched += Number(entry.get(TubeField.ready) > 0 && !hasWatchers && !isPaused && !holdsDead);
  }
  yield gauge(
    "tubes_unwatched",
    "Tubes with ready jobs and no watchers, except paused and dead-letter tubes.",
    unwatched,
  );
  yield gauge("tubes_paused", "Tubes that are paused.", paused);
  yield gauge("tubes_holding_dead", "Dead-letter tubes with a ready job.", deadLetter);
}

export const countersOfAll = (totals: ShardTotals): Counts => eachOf(TUBE_COUNTERS, (name) => totals[name]);

/**
 * Returns one series for each tube in `own`, even if it is deleted, and one for all other tubes.
 */
export function seriesOf(
  tubes: ReadonlyMap<string, TubeEntry>,
  own: ReadonlyMap<string, Counts>,
  othersCounters: Counts,
): TubeSeries[] {
  const series = Array.from(own, ([tube, counters]): TubeSeries => {
    const entry = tubes.get(tube);
    return { tube, entries: entry === undefined ? [] : [entry], counters };
  });
  const others = [...tubes.values()].filter(({ name }) => !own.has(name));
  return [...series, { tube: OTHERS, entries: others, counters: othersCounters }];
}
