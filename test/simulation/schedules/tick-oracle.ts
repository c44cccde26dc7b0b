// The ticks of some timings, found without a cron library: every minute of a time is looked at on
// the clock of its zone.

import type { Timing } from "../../../src/engine/schedules/schedule.ts";

const MINUTE_MS = 60_000;

interface Local {
  readonly minute: number;
  readonly hour: number;
  readonly weekday: number;
  /** Minutes since 1970 as the clock of the zone shows them. */
  readonly minutes: number;
}

/** A cron expression of the tests: whether it runs at a time of the zone's clock. */
interface Expression {
  readonly cron: string;
  /** Without a wildcard or a step in hour and minute. */
  readonly isFixed: boolean;
  readonly matches: (local: Local) => boolean;
}

const EXPRESSIONS: readonly Expression[] = [
  { cron: "30 2 * * *", isFixed: true, matches: ({ hour, minute }) => hour === 2 && minute === 30 },
  {
    cron: "15,45 1-2 * * *",
    isFixed: true,
    matches: ({ hour, minute }) => [1, 2].includes(hour) && minute % 30 === 15,
  },
  { cron: "*/15 * * * *", isFixed: false, matches: ({ minute }) => minute % 15 === 0 },
  { cron: "10 * * * *", isFixed: false, matches: ({ minute }) => minute === 10 },
  { cron: "* * * * *", isFixed: false, matches: () => true },
  {
    cron: "0 3 * * MON-FRI",
    isFixed: true,
    matches: ({ hour, minute, weekday }) => hour === 3 && minute === 0 && weekday >= 1 && weekday <= 5,
  },
];

export const CRONS: readonly string[] = EXPRESSIONS.map(({ cron }) => cron);

const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const formats = new Map<string, Intl.DateTimeFormat>();
const clocks = new Map<string, Map<number, Local>>();

/** Returns what the clock of the zone shows at a whole minute. */
function localAt(zone: string, atMs: number): Local {
  let clock = clocks.get(zone);
  if (clock === undefined) clocks.set(zone, (clock = new Map()));
  let local = clock.get(atMs);
  if (local === undefined) clock.set(atMs, (local = read(zone, atMs)));
  return local;
}

function read(zone: string, atMs: number): Local {
  let format = formats.get(zone);
  if (format === undefined) {
    const fields = {
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
    } as const;
    format = new Intl.DateTimeFormat("en-US", {
      timeZone: zone,
      hourCycle: "h23",
      weekday: "short",
      ...fields,
    });
    formats.set(zone, format);
  }
  const parts = new Map(format.formatToParts(atMs).map(({ type, value }) => [type, value]));
  const part = (type: Intl.DateTimeFormatPartTypes): number => Number(parts.get(type));
  const minutes =
    Date.UTC(part("year"), part("month") - 1, part("day"), part("hour"), part("minute")) / MINUTE_MS;
  return {
    minute: part("minute"),
    hour: part("hour"),
    weekday: WEEKDAYS.indexOf(parts.get("weekday")!),
    minutes,
  };
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
  const ticks: number[] = [];
  if (everyMs > 0) {
    for (let n = Math.max(1, Math.floor((fromMs - anchorMs) / everyMs)); anchorMs + n * everyMs <= toMs; n++)
      if (anchorMs + n * everyMs > fromMs) ticks.push(anchorMs + n * everyMs);
    return ticks;
  }
  const { isFixed, matches } = EXPRESSIONS.find((each) => each.cron === cron)!;
  for (let atMs = Math.floor(fromMs / MINUTE_MS) * MINUTE_MS; atMs <= toMs; atMs += MINUTE_MS)
    if (atMs > fromMs && (isFixed ? isFixedTick : isPlainTick)(zone, atMs, matches)) ticks.push(atMs);
  return ticks;
}

const isPlainTick = (zone: string, atMs: number, matches: Expression["matches"]): boolean =>
  matches(localAt(zone, atMs));

/** Times that come twice run once, and skipped ones at the first minute behind the gap. */
function isFixedTick(zone: string, atMs: number, matches: Expression["matches"]): boolean {
  const local = localAt(zone, atMs);
  const before = localAt(zone, atMs - MINUTE_MS);
  for (let skipped = before.minutes + 1; skipped < local.minutes; skipped++) {
    const date = new Date(skipped * MINUTE_MS);
    const clock = {
      minute: date.getUTCMinutes(),
      hour: date.getUTCHours(),
      weekday: date.getUTCDay(),
      minutes: skipped,
    };
    if (matches(clock)) return true;
  }
  if (!matches(local)) return false;
  for (let backMs = MINUTE_MS; backMs <= 120 * MINUTE_MS; backMs += MINUTE_MS)
    if (localAt(zone, atMs - backMs).minutes === local.minutes) return false;
  return true;
}
