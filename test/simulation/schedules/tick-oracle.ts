// The ticks of some timings, found without a cron library and without a search: each minute, or
// each second, of a time is looked at on the clock of its zone.

import type { Timing } from "../../../src/engine/schedules.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Clocks go back by less, and not again before that. */
const FOLD_MS_MAX = 3 * HOUR_MS;

/** What a cron expression means. */
export interface Expression {
  readonly cron: string;
  /** Without a wildcard or a step in the time of day. */
  readonly isFixed: boolean;
  /** Returns whether it runs at what a clock shows, as if that were UTC. */
  readonly matches: (local: Date) => boolean;
}

const hour = (local: Date): number => local.getUTCHours();
const minute = (local: Date): number => local.getUTCMinutes();

const EXPRESSIONS: readonly Expression[] = [
  {
    cron: "30 2 * * *",
    isFixed: true,
    matches: (local) => hour(local) === 2 && minute(local) === 30,
  },
  {
    cron: "15,45 1-2 * * *",
    isFixed: true,
    matches: (local) => [1, 2].includes(hour(local)) && minute(local) % 30 === 15,
  },
  { cron: "*/15 * * * *", isFixed: false, matches: (local) => minute(local) % 15 === 0 },
  { cron: "10 * * * *", isFixed: false, matches: (local) => minute(local) === 10 },
  { cron: "* * * * *", isFixed: false, matches: () => true },
  {
    cron: "0 3 * * MON-FRI",
    isFixed: true,
    matches: (local) =>
      hour(local) === 3 && minute(local) === 0 && local.getUTCDay() >= 1 && local.getUTCDay() <= 5,
  },
];

export const CRONS: readonly string[] = EXPRESSIONS.map(({ cron }) => cron);

const formats = new Map<string, Intl.DateTimeFormat>();
const offsets = new Map<string, Map<number, number>>();

/** Returns what the clock of the zone shows at a whole second, as if that were UTC, in ms. */
function localAt(zone: string, atMs: number): number {
  // No clock changes within a minute.
  const minuteMs = Math.floor(atMs / MINUTE_MS) * MINUTE_MS;
  let known = offsets.get(zone);
  if (known === undefined) offsets.set(zone, (known = new Map()));
  let offsetMs = known.get(minuteMs);
  if (offsetMs === undefined) known.set(minuteMs, (offsetMs = read(zone, minuteMs) - minuteMs));
  return atMs + offsetMs;
}

function read(zone: string, atMs: number): number {
  let format = formats.get(zone);
  if (format === undefined) {
    const fields = {
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
    } as const;
    format = new Intl.DateTimeFormat("en-US", { timeZone: zone, hourCycle: "h23", ...fields });
    formats.set(zone, format);
  }
  const parts = new Map(format.formatToParts(atMs).map(({ type, value }) => [type, value]));
  const part = (type: Intl.DateTimeFormatPartTypes): number => Number(parts.get(type));
  return Date.UTC(part("year"), part("month") - 1, part("day"), part("hour"), part("minute"));
}

/**
 * Returns the ticks after `fromMs`, up to `toMs`, of an interval from `anchorMs` or an expression.
 */
export function ticksBetween(
  { cron, zone, everyMs }: Timing,
  anchorMs: number,
  fromMs: number,
  toMs: number,
): number[] {
  if (everyMs > 0) {
    const ticks: number[] = [];
    for (let n = Math.max(1, Math.floor((fromMs - anchorMs) / everyMs)); anchorMs + n * everyMs <= toMs; n++)
      if (anchorMs + n * everyMs > fromMs) ticks.push(anchorMs + n * everyMs);
    return ticks;
  }
  return walk(EXPRESSIONS.find((each) => each.cron === cron)!, zone, fromMs, toMs, MINUTE_MS);
}

/**
 * Returns the ticks after `fromMs`, up to `toMs`, of an expression that runs only at multiples of
 * `stepMs`.
 */
export function walk(
  expression: Expression,
  zone: string,
  fromMs: number,
  toMs: number,
  stepMs: number,
): number[] {
  const ticks: number[] = [];
  const isTick = expression.isFixed ? isFixedTick : isPlainTick;
  for (let atMs = (Math.floor(fromMs / stepMs) + 1) * stepMs; atMs <= toMs; atMs += stepMs)
    if (isTick(expression, zone, atMs, stepMs)) ticks.push(atMs);
  return ticks;
}

const isPlainTick = ({ matches }: Expression, zone: string, atMs: number): boolean =>
  matches(new Date(localAt(zone, atMs)));

/**
 * Times that come twice run once, and skipped ones at the first moment behind the gap, unless their
 * whole day is skipped.
 */
function isFixedTick({ matches }: Expression, zone: string, atMs: number, stepMs: number): boolean {
  const localMs = localAt(zone, atMs);
  let skippedMs = localAt(zone, atMs - stepMs) + stepMs;
  if (localMs - skippedMs >= DAY_MS) skippedMs = localMs;
  for (; skippedMs < localMs; skippedMs += stepMs) if (matches(new Date(skippedMs))) return true;
  if (!matches(new Date(localMs))) return false;
  const agoMs = atMs - FOLD_MS_MAX;
  const earlierMs = agoMs + localMs - localAt(zone, agoMs);
  return earlierMs >= atMs || localAt(zone, earlierMs) !== localMs;
}

/** Returns the times in a year at which the clock of the zone changes. */
export function changesIn(zone: string, year: number): number[] {
  const offsetMs = (atMs: number): number => localAt(zone, atMs) - atMs;
  const changes: number[] = [];
  for (let atMs = Date.UTC(year, 0, 1); atMs < Date.UTC(year + 1, 0, 1); atMs += DAY_MS) {
    if (offsetMs(atMs) === offsetMs(atMs + DAY_MS)) continue;
    let changeMs = atMs + MINUTE_MS;
    while (offsetMs(changeMs) === offsetMs(changeMs - MINUTE_MS)) changeMs += MINUTE_MS;
    changes.push(changeMs);
  }
  return changes;
}
