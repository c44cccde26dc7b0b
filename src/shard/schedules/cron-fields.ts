// The fields of a cron expression as sets of values, and the local times that they match. This is
// the only file that uses croner, and it uses only the parser. croner's search tries one time after
// another and asks the time zone each time, which takes up to 200 ms for rare times.
//
// A local time is what the clock of a zone shows, as if that were UTC, in ms.

import { CronPattern } from "croner";
import { assert } from "../../base/assert.ts";

const SECOND_MS = 1000;
const DAY_MS = 86_400_000;
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

export class CronFields {
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
