// A tube as the API shows it.

import type { Static } from "typebox";
import { TubeField } from "../../../message/control.ts";
import type { MeasuredTubes } from "../../state/measured-tubes.ts";
import type { Recent, RecentTimes } from "../../state/time-series.ts";
import { TUBE_COUNTER_NAMES, TUBE_COUNTERS, type TubeEntry } from "../../state/tube-cache.ts";
import type { Counters, Tube } from "../schemas.ts";

type TubeView = Static<typeof Tube>;

const rounded = (value: number): number => Math.round(value * 1000) / 1000;

const recentView = ({ seconds, wait, hold }: Recent): NonNullable<TubeView["times"]> => ({
  seconds: Math.round(seconds),
  wait: roundedTimes(wait),
  hold: roundedTimes(hold),
});

const roundedTimes = ({ count, p50, p99 }: RecentTimes): RecentTimes => ({
  count,
  p50: p50 === null ? null : rounded(p50),
  p99: p99 === null ? null : rounded(p99),
});

/** Returns a tube's view. `nowMs` is the shards' clock, from which ages are calculated. */
export function tubeView(entry: TubeEntry, nowMs: number, measured: MeasuredTubes): TubeView {
  const recent = measured.recent(entry.name);
  const at = (field: number): number => entry.get(field);
  const age = (field: number): number | null =>
    at(field) === Number.POSITIVE_INFINITY ? null : rounded(Math.max(0, nowMs - at(field)) / 1000);
  const untilMs = at(TubeField.PauseUntilMs);
  const counters = (value: (field: number) => number): Static<typeof Counters> =>
    Object.fromEntries(TUBE_COUNTER_NAMES.map((name) => [name, value(TUBE_COUNTERS[name])])) as Static<
      typeof Counters
    >;
  return {
    name: entry.name,
    jobs: {
      ready: at(TubeField.Ready),
      urgent: at(TubeField.Urgent),
      reserved: at(TubeField.Reserved),
      delayed: at(TubeField.Delayed),
      buried: at(TubeField.Buried),
    },
    oldestReady: age(TubeField.OldestReadyAtMs),
    oldestBuried: age(TubeField.OldestBuriedAtMs),
    bodyBytes: at(TubeField.BodyBytes),
    users: at(TubeField.Users),
    watchers: at(TubeField.Watchers),
    waiters: at(TubeField.Waiters),
    pause:
      untilMs > nowMs
        ? { seconds: at(TubeField.PauseSeconds), timeLeft: rounded((untilMs - nowMs) / 1000) }
        : null,
    holdsDead: at(TubeField.HoldsDead) > 0,
    times: recent === null ? null : recentView(recent),
    totals: counters(at),
    rates: counters((field) => rounded(Math.max(0, entry.rate(field)))),
  };
}

/**
 * Returns the view of an empty tube, for one that doesn't exist. Autoscalers ask for tubes that are
 * not in use yet.
 */
export function emptyTube(name: string): TubeView {
  const none = Object.fromEntries(TUBE_COUNTER_NAMES.map((each) => [each, 0])) as Static<typeof Counters>;
  return {
    name,
    jobs: { ready: 0, urgent: 0, reserved: 0, delayed: 0, buried: 0 },
    oldestReady: null,
    oldestBuried: null,
    bodyBytes: 0,
    users: 0,
    watchers: 0,
    waiters: 0,
    pause: null,
    holdsDead: false,
    times: null,
    totals: none,
    rates: none,
  };
}

/**
 * Numbers that tubes can be sorted by. A Map because clients choose the key, and every object has a
 * "constructor".
 */
const TUBE_ORDERS: ReadonlyMap<string, (entry: TubeEntry) => number> = new Map(
  Object.entries<(entry: TubeEntry) => number>({
    ready: (entry) => entry.get(TubeField.Ready),
    urgent: (entry) => entry.get(TubeField.Urgent),
    reserved: (entry) => entry.get(TubeField.Reserved),
    delayed: (entry) => entry.get(TubeField.Delayed),
    buried: (entry) => entry.get(TubeField.Buried),
    /** The oldest is the largest, so timestamps are negated. */
    oldest: (entry) => -entry.get(TubeField.OldestReadyAtMs),
    oldestReady: (entry) => -entry.get(TubeField.OldestReadyAtMs),
    oldestBuried: (entry) => -entry.get(TubeField.OldestBuriedAtMs),
    bodyBytes: (entry) => entry.get(TubeField.BodyBytes),
    users: (entry) => entry.get(TubeField.Users),
    watchers: (entry) => entry.get(TubeField.Watchers),
    waiters: (entry) => entry.get(TubeField.Waiters),
    pause: (entry) => entry.get(TubeField.PauseUntilMs),
    busiest: (entry) => entry.rate(TUBE_COUNTERS.puts) + entry.rate(TUBE_COUNTERS.reserves),
    ...Object.fromEntries(
      TUBE_COUNTER_NAMES.flatMap((name) => [
        [name, (entry: TubeEntry) => entry.get(TUBE_COUNTERS[name])],
        [`${name}Rate`, (entry: TubeEntry) => entry.rate(TUBE_COUNTERS[name])],
      ]),
    ),
  }),
);

const TIME_ORDERS: ReadonlyMap<string, (recent: Recent) => number | null> = new Map([
  ["waitP50", ({ wait }: Recent) => wait.p50],
  ["waitP99", ({ wait }: Recent) => wait.p99],
  ["holdP50", ({ hold }: Recent) => hold.p50],
  ["holdP99", ({ hold }: Recent) => hold.p99],
]);

type Comparison = (a: TubeEntry, b: TubeEntry) => number;

/**
 * Returns the comparison for the requested order: by name, or by a number with the largest first.
 * Throws RangeError for an unknown key.
 */
export function tubeOrder(sort: string, measured: MeasuredTubes, order?: "asc" | "desc"): Comparison {
  const sign = (order ?? (sort === "name" ? "asc" : "desc")) === "asc" ? 1 : -1;
  const byName: Comparison = (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
  if (sort === "name") return (a, b) => sign * byName(a, b);
  const value = TUBE_ORDERS.get(sort) ?? byTime(sort, measured);
  if (value === undefined)
    throw new RangeError(`Tubes can't be sorted by "${sort}"; use ${TUBE_SORTS.join(", ")}`);
  // Subtraction would fail: tubes without jobs have an infinite age, and Infinity minus Infinity is
  // NaN.
  const compare = (x: number, y: number): number => (x < y ? -1 : x > y ? 1 : 0);
  return (a, b) => sign * compare(value(a), value(b)) || byName(a, b);
}

/** Tubes without such a time are the smallest. */
function byTime(sort: string, measured: MeasuredTubes): ((entry: TubeEntry) => number) | undefined {
  const time = TIME_ORDERS.get(sort);
  if (time === undefined) return undefined;
  return ({ name }) => {
    const recent = measured.recent(name);
    return recent === null ? -1 : (time(recent) ?? -1);
  };
}

export const TUBE_SORTS: readonly string[] = ["name", ...TUBE_ORDERS.keys(), ...TIME_ORDERS.keys()];
