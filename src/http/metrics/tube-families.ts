// Metrics of tubes: those with series of their own, the operator's groups, and the rest as `*`.

import { type ShardTotals, TUBE_BOUNDS_SECONDS, TubeField, type TubeTimes } from "../../message/control.ts";
import type { TimesOf } from "../state/time-series.ts";
import { TUBE_COUNTER_NAMES, TUBE_COUNTERS, type TubeCounter, type TubeEntry } from "../state/tube-cache.ts";
import { counter, type Family, gauge, histogram, type Sample } from "./metrics-text.ts";

/** Label of all tubes without series; no valid tube name. */
const OTHERS = "*";

/** One label: a single tube or a sum of several. */
interface TubeSeries {
  readonly tube: string;
  readonly entries: readonly TubeEntry[];
  /** Counters to use instead of the sum of the entries. */
  readonly counters?: Record<TubeCounter, number>;
}

const STATES = {
  ready: TubeField.Ready,
  reserved: TubeField.Reserved,
  delayed: TubeField.Delayed,
  buried: TubeField.Buried,
} as const;

/** The names in metrics, without "tube_", if they differ. */
const NAMES: Partial<Record<TubeCounter, string>> = { rateWaits: "rate_waits" };
export const nameOf = (counter: TubeCounter): string => NAMES[counter] ?? counter;

export const HELP: Readonly<Record<TubeCounter, string>> = {
  puts: "Jobs that were put.",
  reserves: "Jobs that clients have reserved.",
  deletes: "Jobs that were deleted.",
  releases: "Jobs that were released.",
  buries: "Jobs that were buried.",
  kicks: "Jobs that were kicked.",
  timeouts: "Reservations that ended because their time to run expired.",
  disconnects: "Reservations that ended with the connection of their worker.",
  deaths: "Jobs that died: their attempts were used up, or they expired and were buried.",
  expiries: "Jobs whose time to live expired.",
  duplicates: "Puts whose unique key another job had.",
  refusals: "Puts that a limit of the tube refused.",
  rateWaits: "How often the tube used up its rate, so that jobs had to wait.",
};

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
  entries.reduce((most, entry) => Math.max(most, (entry.get(TubeField.PauseUntilMs) - nowMs) / 1000), 0);

export function* tubeFamilies(series: readonly TubeSeries[], nowMs: number): Iterable<Family> {
  const of = (name: string, help: string, value: (each: TubeSeries) => number): Family =>
    gauge(
      name,
      help,
      series.map((each): Sample => ({ value: value(each), labels: { tube: each.tube } })),
    );
  yield gauge(
    "tube_jobs",
    "Jobs of a tube by state.",
    series.flatMap((each) =>
      Object.entries(STATES).map(
        ([state, field]): Sample => ({ value: sumOf(each, field), labels: { tube: each.tube, state } }),
      ),
    ),
  );
  yield of(
    "tube_oldest_ready_seconds",
    "How long the oldest ready job has been ready; 0 without one.",
    (each) => ageOf(each, TubeField.OldestReadyAtMs, nowMs),
  );
  yield of(
    "tube_oldest_buried_seconds",
    "How long the oldest buried job has been buried; 0 without one.",
    (each) => ageOf(each, TubeField.OldestBuriedAtMs, nowMs),
  );
  yield of("tube_body_bytes", "Bytes of the bodies of its jobs.", (each) => sumOf(each, TubeField.BodyBytes));
  yield of("tube_users", "Connections that use it.", (each) => sumOf(each, TubeField.Users));
  yield of("tube_watchers", "Connections that watch it.", (each) => sumOf(each, TubeField.Watchers));
  yield of("tube_waiters", "Connections that wait for its jobs.", (each) => sumOf(each, TubeField.Waiters));
  yield of("tube_holds_dead", "1 for a dead-letter tube with a ready job: its jobs died elsewhere.", (each) =>
    sumOf(each, TubeField.HoldsDead),
  );
  yield of(
    "tube_lost_job_disconnects",
    "How often the worker's connection ended during the job that lately lost the most workers; 0 without one.",
    ({ entries }) =>
      entries.reduce((most, entry) => Math.max(most, entry.get(TubeField.LostJobDisconnects)), 0),
  );
  yield of("tube_pause_seconds", "Remaining time of its pause.", (each) => pauseOf(each, nowMs));
  for (const name of TUBE_COUNTER_NAMES) {
    const samples = series.map(
      (each): Sample => ({
        value: each.counters?.[name] ?? sumOf(each, TUBE_COUNTERS[name]),
        labels: { tube: each.tube },
      }),
    );
    yield counter(`tube_${nameOf(name)}`, HELP[name], samples);
  }
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
    const isPaused = entry.get(TubeField.PauseUntilMs) > nowMs;
    const holdsDead = entry.get(TubeField.HoldsDead) > 0;
    const hasWatchers = entry.get(TubeField.Watchers) > 0;
    paused += Number(isPaused);
    deadLetter += Number(holdsDead);
    unwatched += Number(entry.get(TubeField.Ready) > 0 && !hasWatchers && !isPaused && !holdsDead);
  }
  yield gauge(
    "tubes_unwatched",
    "Tubes with ready jobs and no watchers, except paused and dead-letter tubes.",
    unwatched,
  );
  yield gauge("tubes_paused", "Tubes that are paused.", paused);
  yield gauge("tubes_holding_dead", "Dead-letter tubes with a ready job.", deadLetter);
}

/** Returns the server's totals of the counters that tubes have. */
export function countersOfAll(totals: ShardTotals): Record<TubeCounter, number> {
  return Object.fromEntries(TUBE_COUNTER_NAMES.map((name) => [name, totals[name]])) as Record<
    TubeCounter,
    number
  >;
}

/**
 * Returns one series for each tube in `own`, even if it is deleted, and one for all other tubes.
 */
export function seriesOf(
  tubes: ReadonlyMap<string, TubeEntry>,
  own: ReadonlyMap<string, Record<TubeCounter, number>>,
  othersCounters: Record<TubeCounter, number>,
): TubeSeries[] {
  const series = Array.from(own, ([tube, counters]): TubeSeries => {
    const entry = tubes.get(tube);
    return { tube, entries: entry === undefined ? [] : [entry], counters };
  });
  const others = [...tubes.values()].filter(({ name }) => !own.has(name));
  return [...series, { tube: OTHERS, entries: others, counters: othersCounters }];
}
