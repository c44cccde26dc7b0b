// The ticks of cron expressions in time zones.

import { CronPattern } from "croner";
import { assert } from "../../base/assert.ts";
import type { ScheduleTable, Timing } from "../../engine/schedules.ts";

// The clock of a time zone. A local time is what it shows, as if that were UTC, in ms.

const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;
/** Zones to keep per thread: creating a format takes 0.1 ms. */
const ZONES_KEPT_MAX = 100;

/** Where a local time lies: at one time or two, or in a gap that begins and ends at `atMs`. */
type Place =
  | { readonly times: readonly number[] }
  | { readonly times: readonly []; readonly atMs: number; readonly gapMs: number; readonly endMs: number };

export class ZoneClock {
  static readonly #kept = new Map<string, ZoneClock>();
  readonly #format: Intl.DateTimeFormat;

  /** Returns the clock of a zone; throws RangeError if Intl doesn't know it. */
  static of(zone: string): ZoneClock {
    const kept = ZoneClock.#kept;
    // Intl ignores the case of a name.
    const name = zone.toUpperCase();
    const clock = kept.get(name) ?? new ZoneClock(zone);
    // The least recently used come first.
    kept.delete(name);
    kept.set(name, clock);
    if (kept.size > ZONES_KEPT_MAX) kept.delete(kept.keys().next().value!);
    assert(kept.size <= ZONES_KEPT_MAX, "the number of kept zones is limited");
    return clock;
  }

  private constructor(zone: string) {
    this.#format = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "longOffset" });
  }

  /** Returns by how much the clock is ahead of UTC at this time, in ms. */
  offsetMs(atMs: number): number {
    const found = OFFSET.exec(this.#format.format(atMs));
    assert(found !== null, "a time in a zone has an offset");
    const [, sign, hours = 0, minutes = 0, seconds = 0] = found;
    const ms = (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * SECOND_MS;
    return sign === "-" ? -ms : ms;
  }

  /** Finds the times at which the clock shows a local time, the earlier one first. */
  place(localMs: number): Place {
    // No zone is further than 14 hours from UTC.
    const before = this.offsetMs(localMs - DAY_MS);
    const after = this.offsetMs(localMs + DAY_MS);
    if (before === after) return { times: [localMs - before] };
    const times = [localMs - before, localMs - after].filter((ms) => ms + this.offsetMs(ms) === localMs);
    if (times.length > 0) return { times: times.sort((a, b) => a - b) };
    const atMs = this.changeMs(localMs - after, localMs - before);
    return { times: [], atMs, gapMs: after - before, endMs: atMs + after };
  }

  /**
   * Returns when the offset changes between two times: the first whole second with the new offset.
   */
  changeMs(fromMs: number, toMs: number): number {
    const before = this.offsetMs(fromMs);
    let [low, high] = [Math.floor(fromMs / SECOND_MS), Math.ceil(toMs / SECOND_MS)];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.offsetMs(middle * SECOND_MS) === before) low = middle;
      else high = middle;
    }
    return high * SECOND_MS;
  }
}

// The fields of a cron expression as sets of values, and the local times that they match. This is
// the only file that uses croner, and it uses only the parser. croner's search tries one time after
// another and asks the time zone each time, which takes up to 200 ms for rare times.
//
// A local time is what the clock of a zone shows, as if that were UTC, in ms.

const YEAR_MAX = 9999;
/** In a weekday's mask, bit n is its occurrence n + 1 in a month, and this bit is its last one. */
const LAST = 32;
const YEARS = /^(?:\*(?:\/(\d+))?|(\d+)(?:-(\d+)(?:\/(\d+))?)?)$/;

/** Years from `from` to `to` in steps. */
interface Years {
  readonly from: number;
  readonly to: number;
  readonly step: number;
}

/** Returns the positions of a field's values. */
function valuesOf(field: readonly number[]): readonly number[] {
  return field.flatMap((isSet, value) => (isSet ? [value] : []));
}

/** Returns a field as a mask: bit 0 is its first value. */
function maskOf(field: readonly number[]): number {
  return valuesOf(field).reduce((mask, value) => mask + 2 ** value, 0);
}

/** Reads the years of an expression; the library would fill 80 KB for each of them. */
function yearsOf(text: string): readonly Years[] {
  return text.split(",").map((part) => {
    const found = YEARS.exec(part);
    const [, each, first, last, steps] = found ?? [];
    const step = Number(each ?? steps ?? 1);
    const from = Number(first ?? 0);
    const to = Number(last ?? first ?? YEAR_MAX);
    const isInLimits = first !== "0" && from <= to && to <= YEAR_MAX && step > 0 && step <= YEAR_MAX;
    if (found === null || !isInLimits) throw new RangeError(`"${part}" is not a year`);
    return { from, to, step };
  });
}

function patternOf(text: string): CronPattern {
  try {
    return new CronPattern(text, undefined, { fixedTimeRule: "no-wildcard" });
  } catch (error) {
    throw new RangeError(`"${text}" is not a cron expression`, { cause: error });
  }
}

class CronFields {
  /** As in Vixie's cron, an expression without `*` and steps in its times means fixed times. */
  readonly isFixed: boolean;
  readonly #seconds: readonly number[];
  readonly #minutes: readonly number[];
  readonly #hours: readonly number[];
  readonly #months: readonly number[];
  readonly #days: number;
  readonly #nearWeekdays: readonly number[];
  readonly #years: readonly Years[];
  readonly #pattern: Pick<
    CronPattern,
    "dayOfWeek" | "lastDayOfMonth" | "lastWeekday" | "starDOM" | "starDOW" | "useAndLogic"
  >;

  /** Throws RangeError if the expression is wrong. */
  constructor(cron: string) {
    const fields = cron.split(" ");
    this.#years = yearsOf(fields[6] ?? "*");
    const pattern = patternOf(fields.slice(0, 6).join(" "));
    const { dayOfWeek, lastDayOfMonth, lastWeekday, starDOM, starDOW, useAndLogic } = pattern;
    this.isFixed = pattern.isFixedTime;
    this.#seconds = valuesOf(pattern.second);
    this.#minutes = valuesOf(pattern.minute);
    this.#hours = valuesOf(pattern.hour);
    this.#months = valuesOf(pattern.month);
    this.#days = maskOf(pattern.day);
    this.#nearWeekdays = valuesOf(pattern.nearestWeekdays);
    // This leaves out the pattern's array of all years.
    this.#pattern = { dayOfWeek, lastDayOfMonth, lastWeekday, starDOM, starDOW, useAndLogic };
  }

  /** Returns the first matching local time from this one on, up to a year; Infinity for none. */
  next(localMs: number, lastYear: number): number {
    const last = Math.min(lastYear, YEAR_MAX);
    for (let year = new Date(localMs).getUTCFullYear(); year <= last; year++) {
      if (!this.#years.some((years) => isAmong(year, years))) continue;
      for (const month of this.#months) {
        const foundMs = this.#inMonth(year, month, localMs);
        if (foundMs < Number.POSITIVE_INFINITY) return foundMs;
      }
    }
    return Number.POSITIVE_INFINITY;
  }

  #inMonth(year: number, month: number, localMs: number): number {
    const today = Math.floor(localMs / DAY_MS) * DAY_MS;
    assert(localMs >= today, "a time is not before its day's midnight");
    let dayMs = Date.UTC(year, month, 1);
    for (let days = this.#daysOf(year, month); days > 0; days >>= 1, dayMs += DAY_MS) {
      if (days % 2 === 0 || dayMs < today) continue;
      const timeMs = this.#timeFrom(dayMs === today ? localMs - today : 0);
      if (timeMs < DAY_MS) return dayMs + timeMs;
    }
    return Number.POSITIVE_INFINITY;
  }

  /** Returns the first matching time of day from this one on; DAY_MS for none. */
  #timeFrom(fromMs: number): number {
    const from = Math.ceil(fromMs / SECOND_MS);
    for (const hour of this.#hours) {
      if (hour * 3600 + 3599 < from) continue;
      for (const minute of this.#minutes) {
        const at = hour * 3600 + minute * 60;
        if (at + 59 < from) continue;
        for (const second of this.#seconds) if (at + second >= from) return (at + second) * SECOND_MS;
      }
    }
    return DAY_MS;
  }

  /** Returns the days of a month as a mask, whose bit 0 is the first. */
  #daysOf(year: number, month: number): number {
    const { lastDayOfMonth, lastWeekday, starDOM, starDOW, useAndLogic } = this.#pattern;
    const firstMs = Date.UTC(year, month, 1);
    const days = (Date.UTC(year, month + 1, 1) - firstMs) / DAY_MS;
    // 1 January 1970 was a Thursday.
    const first = (((firstMs / DAY_MS + 4) % 7) + 7) % 7;
    let byDay = this.#days % 2 ** days;
    for (const day of this.#nearWeekdays) if (day < days) byDay |= 1 << nearWeekday(first, day, days);
    if (lastDayOfMonth) byDay |= 1 << (days - 1);
    if (lastWeekday) byDay |= 1 << nearWeekday(first, days - 1, days);
    if (starDOW) return byDay;
    const byWeekday = this.#weekdaysOf(first, days);
    return useAndLogic || starDOM ? byDay & byWeekday : byDay | byWeekday;
  }

  /** Returns the days that match by weekday, for a month that begins on weekday `first`. */
  #weekdaysOf(first: number, days: number): number {
    let mask = 0;
    for (let day = 0; day < days; day++) {
      const chosen = this.#pattern.dayOfWeek[(first + day) % 7]!;
      const nth = 1 << Math.floor(day / 7);
      if ((chosen & nth) !== 0 || ((chosen & LAST) !== 0 && day + 7 >= days)) mask |= 1 << day;
    }
    return mask;
  }
}

function isAmong(year: number, { from, to, step }: Years): boolean {
  return year >= from && year <= to && (year - from) % step === 0;
}

/** Returns the weekday of the month that is nearest to a day, both counted from 0. */
function nearWeekday(first: number, day: number, days: number): number {
  const weekday = (first + day) % 7;
  if (weekday === 0) return day === days - 1 ? day - 2 : day + 1;
  if (weekday === 6) return day === 0 ? day + 2 : day - 1;
  return day;
}

const SECOND_MS = 1000;
const DAY_MS = 86_400_000;
/** Parsed expressions to keep; parsing one takes as long as finding its next tick. */
const EXPRESSIONS_KEPT_MAX = 100;
/** The fields of an expression and their values; the first and the last are optional. */
const FIELDS = [
  ["second", "0 to 59"],
  ["minute", "0 to 59"],
  ["hour", "0 to 23"],
  ["day", "1 to 31 or L"],
  ["month", "1 to 12 or JAN to DEC"],
  ["day of the week", "0 to 7 or SUN to SAT"],
  ["year", "1 to 9999"],
] as const;
/** Years that a search looks ahead: 29 February on a given weekday takes up to 40. */
const YEARS_AHEAD = 41;
/** No expression has a tick after this time. */
const LAST_MS = 253_402_300_800_000;
const NAMED = /^@(?:yearly|annually|monthly|weekly|daily|midnight|hourly)$/i;

interface Kept {
  readonly search: CronSearch;
  /** The last query and its result: many schedules have the same expression. */
  afterMs: number;
  nextMs: number;
}

/** Parsed expressions, the least recently used first. */
export class CronTimes {
  readonly #kept = new Map<string, Kept>();

  /**
   * Returns the first tick after this time, or Infinity if there is none, or if the expression or
   * the zone is unknown: a log may come from a server that knows more.
   */
  readonly next = (timing: Timing, afterMs: number): number => {
    try {
      const kept = this.#parsed(timing);
      if (kept.afterMs !== afterMs) {
        kept.nextMs = kept.search.next(afterMs);
        kept.afterMs = afterMs;
      }
      return kept.nextMs;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return Number.POSITIVE_INFINITY;
    }
  };

  #parsed({ cron, zone }: Timing): Kept {
    const name = `${zone} ${cron}`;
    const kept = this.#kept.get(name) ?? {
      search: new CronSearch(cron, zone),
      afterMs: Number.NaN,
      nextMs: 0,
    };
    this.#kept.delete(name);
    this.#kept.set(name, kept);
    if (this.#kept.size > EXPRESSIONS_KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value!);
    assert(this.#kept.size <= EXPRESSIONS_KEPT_MAX, "the number of parsed expressions is limited");
    return kept;
  }
}

/** An expression in a zone. A search asks the clock of the zone for a few candidates only. */
class CronSearch {
  readonly #fields: CronFields;
  readonly #clock: ZoneClock;

  /** Throws RangeError if the expression or the zone is unknown. */
  constructor(cron: string, zone: string) {
    this.#fields = new CronFields(cron);
    this.#clock = ZoneClock.of(zone);
  }

  /** Returns the first tick after this time; Infinity if there is none within the limits. */
  next(afterMs: number): number {
    if (!(Math.abs(afterMs) < LAST_MS)) return Number.POSITIVE_INFINITY;
    const fromMs = Math.floor(afterMs / SECOND_MS + 1) * SECOND_MS;
    const lastYear = new Date(fromMs).getUTCFullYear() + YEARS_AHEAD;
    const nextMs = this.#search(fromMs, lastYear);
    if (this.#fields.isFixed) return nextMs;
    // Just before the clock goes back, it shows later times than just after.
    const [first, second] = this.#clock.place(fromMs + this.#clock.offsetMs(fromMs)).times;
    if (first !== fromMs || second === undefined) return nextMs;
    return Math.min(nextMs, this.#search(this.#clock.changeMs(first, second), lastYear));
  }

  #search(fromMs: number, lastYear: number): number {
    // At the end of a gap, the skipped times come first: they have their ticks there.
    const offsetMs = Math.min(this.#clock.offsetMs(fromMs), this.#clock.offsetMs(fromMs - SECOND_MS));
    let localMs = fromMs + offsetMs;
    for (;;) {
      localMs = this.#fields.next(localMs, lastYear);
      if (localMs === Number.POSITIVE_INFINITY) return localMs;
      const place = this.#clock.place(localMs);
      const found = this.#ticksAt(place).find((atMs) => atMs >= fromMs);
      if (found !== undefined) return found;
      localMs = Math.max(this.#endOf(place), localMs + SECOND_MS);
    }
  }

  /** Returns when a matching local time has its ticks. */
  #ticksAt(place: Place): readonly number[] {
    if (!this.#fields.isFixed) return place.times;
    if (!("gapMs" in place)) return place.times.slice(0, 1);
    // A day that a zone skips entirely has no ticks.
    return place.gapMs < DAY_MS ? [place.atMs] : [];
  }

  /** Returns the end of the local times that are skipped, or come twice, with this one. */
  #endOf(place: Place): number {
    if ("gapMs" in place) return place.endMs;
    const [first, second] = place.times as [number, number?];
    return second === undefined ? 0 : this.#clock.changeMs(first, second) + this.#clock.offsetMs(first);
  }
}

/**
 * Abbreviations that Intl accepts besides the names of the IANA: to it, BST is the time of
 * Bangladesh, and AST that of Alaska.
 */
const NOT_IANA =
  /^(?:(?!CET|EET|EST|GMT|HST|MET|MST|PRC|ROC|ROK|UCT|UTC|WET)[a-z]{3}|SystemV\/.*|US\/Pacific-New)$/i;

/** Returns what is wrong with the name of a time zone, or undefined. */
export function zoneProblem(zone: string): string | undefined {
  // Intl accepts some. A schedule at a fixed offset would be an hour off for half of the year.
  if (/^[+-]/.test(zone))
    return `tz: "${zone}" is an offset; write a time zone as in Europe/Berlin, or Etc/GMT-1 for UTC+1 all year`;
  try {
    ZoneClock.of(zone);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return `tz: "${zone}" is no time zone; write one as in Europe/Berlin or UTC`;
  }
  if (!NOT_IANA.test(zone)) return undefined;
  return `tz: "${zone}" is no IANA time zone; write one as in Europe/Berlin or UTC`;
}

/**
 * Returns what is wrong with a cron expression, or undefined. `afterMs` is the current time: an
 * expression without a tick in the years after it is wrong, too.
 */
export function cronProblem(cron: string, zone: string, afterMs: number): string | undefined {
  const parts = cron.split(" ");
  // To the library, `?` means the time when it parses the expression, which differs at each start.
  const question = parts.findIndex((part) => part.includes("?"));
  if (question >= 0) return `cron: field ${question + 1}: "${parts[question]}" has a "?"; write * instead`;
  if (cron.startsWith("@") ? !NAMED.test(cron) : parts.length < 5 || parts.length > 7)
    return `cron: "${cron}" has not five, six or seven fields, and is none of @hourly, @daily, @weekly, @monthly, @yearly`;
  try {
    const next = new CronSearch(cron, zone).next(afterMs);
    return next === Number.POSITIVE_INFINITY ? `cron: "${cron}" has no time in the next 40 years` : undefined;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return fieldProblem(parts) ?? `cron: "${cron}" is no cron expression`;
  }
}

/** Returns which field is wrong: the one that fails even if all others are `*`. */
function fieldProblem(parts: readonly string[]): string | undefined {
  const first = parts.length === 5 ? 1 : 0;
  for (const [index, part] of parts.entries()) {
    const alone = parts.map((_, other) => (other === index ? part : "*")).join(" ");
    try {
      new CronFields(alone);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      assert(first + index < FIELDS.length, "a field of an expression has a name");
      const [name, values] = FIELDS[first + index]!;
      return `cron: field ${index + 1} (${name}): "${part}" is not *, ${values}, or lists, ranges and steps of them`;
    }
  }
  return undefined;
}

// Schedules of a log whose time zone set-schedule would refuse.

export function zoneWarnings(table: ScheduleTable): string[] {
  const byZone = new Map<string, { first: string; zone: string; count: number }>();
  for (const { name, facts } of table.values()) {
    const { zone } = facts.timing;
    // Intl ignores the case of a name.
    const known = byZone.get(zone.toUpperCase());
    if (known === undefined) byZone.set(zone.toUpperCase(), { first: name, zone, count: 1 });
    else known.count++;
  }
  return [...byZone.values()].flatMap(({ first, zone, count }) => {
    const problem = zoneProblem(zone);
    const more = count === 1 ? "" : ` (and ${count - 1} more)`;
    return problem === undefined ? [] : [`schedule ${JSON.stringify(first)}${more}: ${problem}`];
  });
}
