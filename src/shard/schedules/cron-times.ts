// The ticks of cron expressions in time zones.

import { assert } from "../../base/assert.ts";
import type { Timing } from "../../engine/schedules/schedule.ts";
import { CronFields } from "./cron-fields.ts";
import { type Place, ZoneClock } from "./zone-clock.ts";

const SECOND_MS = 1000;
const DAY_MS = 86_400_000;
/** Parsed expressions to keep; parsing one takes as long as finding its next tick. */
const KEPT_MAX = 100;
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
    if (this.#kept.size > KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value!);
    assert(this.#kept.size <= KEPT_MAX, "the number of parsed expressions is limited");
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
