// The ticks of cron expressions in time zones. The only file that knows croner.

import { Cron } from "croner";
import { assert } from "../../base/assert.ts";
import type { Timing } from "../../engine/schedules/schedule.ts";

/**
 * Expressions that are kept parsed; parsing one takes as long as finding its next tick. Each takes
 * 80 KB, since the library has an array of all years.
 */
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
/**
 * A search goes so many years ahead: 29 February on a given weekday takes up to 40. For a day that
 * never comes, the library would search 400 years or more, which takes seconds.
 */
const YEARS_AHEAD = 41;
/**
 * How often a search asks for an interval, which is twice a step. An expression may name nothing
 * but times that the clock skips, as `* * 2-2/1 * 3 SUN#L` does in Berlin. The library would try
 * 3600 a year. The two hours that Antarctica/Troll skips have 7200 seconds.
 */
const ASKED_MAX = 15_000;
const NAMED = /^@(?:yearly|annually|monthly|weekly|daily|midnight|hourly)$/i;

interface Kept {
  readonly cron: BoundedCron;
  /** The last question and its answer: many schedules have the same expression. */
  afterMs: number;
  nextMs: number;
}

/** Parsed expressions, the least recently used first. */
export class CronTimes {
  readonly #kept = new Map<string, Kept>();

  /** Returns the first tick after this time, or Infinity if there is none. */
  readonly next = (timing: Timing, afterMs: number): number => {
    const kept = this.#parsed(timing);
    if (kept.afterMs === afterMs) return kept.nextMs;
    kept.afterMs = afterMs;
    kept.nextMs = nextRun(kept.cron, afterMs);
    assert(kept.nextMs > afterMs, "the next time is later");
    return kept.nextMs;
  };

  #parsed({ cron, zone }: Timing): Kept {
    const name = `${zone} ${cron}`;
    let kept = this.#kept.get(name);
    if (kept === undefined) {
      if (this.#kept.size >= KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value!);
      kept = { cron: new BoundedCron(cron, zone), afterMs: Number.NaN, nextMs: 0 };
    } else this.#kept.delete(name);
    this.#kept.set(name, kept);
    assert(this.#kept.size <= KEPT_MAX, "few expressions are kept");
    return kept;
  }
}

/** An expression, searched within limits. */
class BoundedCron {
  readonly #zone: string;
  /** The fields before the year; undefined for a nickname, which always has a tick. */
  readonly #head: string | undefined;
  readonly #year: string = "*";
  #cron: Cron;
  /** The year in which the searches of `#cron` begin. */
  #fromYear = Number.NaN;
  #asked = 0;

  constructor(cron: string, zone: string) {
    this.#zone = zone;
    this.#cron = this.#parsed(cron);
    const fields = cron.split(" ");
    if (fields.length < 5) return;
    if (fields.length === 5) fields.unshift("0");
    this.#head = fields.slice(0, 6).join(" ");
    this.#year = fields[6] ?? "*";
  }

  /**
   * As in Vixie's cron, an expression without `*` and steps in hour and minute means fixed times:
   * one that the clock skips runs behind the gap, one that comes twice runs once.
   */
  #parsed(cron: string): Cron {
    const ask = (): number => {
      if (++this.#asked > ASKED_MAX) throw new RangeError("the search takes too many steps");
      return 0;
    };
    return new Cron(cron, {
      timezone: this.#zone,
      paused: true,
      fixedTimeRule: "no-wildcard",
      get interval() {
        return ask();
      },
      set interval(_) {},
    });
  }

  /** Returns the first tick after this time; null if there is none within the limits. */
  nextRun(afterMs: number): Date | null {
    const year = new Date(afterMs).getUTCFullYear();
    if (this.#head !== undefined && this.#fromYear !== year) {
      const years = this.#yearsFrom(year);
      if (years === "") return null;
      this.#cron = this.#parsed(`${this.#head} ${years}`);
      this.#fromYear = year;
    }
    this.#asked = 0;
    try {
      return this.#cron.nextRun(new Date(afterMs));
    } catch (error) {
      if (this.#asked > ASKED_MAX) return null;
      throw error;
    }
  }

  /** Returns the years of a search, from one before: a zone may still be in the old year. */
  #yearsFrom(year: number): string {
    const all = new Cron(`* * * * * * ${this.#year}`, { timezone: "UTC", paused: true });
    const found: number[] = [];
    for (let each = year - 1; each <= Math.min(year + YEARS_AHEAD, 9999); each++)
      if (all.match(new Date(Date.UTC(each, 6)))) found.push(each);
    return found.join(",");
  }
}

/**
 * Returns Infinity, too, if the library errs: a shard must neither end nor put jobs without end. A
 * log may come from a server that knows more time zones.
 */
function nextRun(cron: BoundedCron, afterMs: number): number {
  try {
    const nextMs = cron.nextRun(afterMs)?.getTime() ?? Number.POSITIVE_INFINITY;
    return nextMs > afterMs ? nextMs : Number.POSITIVE_INFINITY;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** Returns what is wrong with the name of a time zone, or undefined. */
export function zoneProblem(zone: string): string | undefined {
  // Intl takes some. A schedule at a fixed offset would be an hour off for half of the year.
  if (/^[+-]/.test(zone))
    return `tz: "${zone}" is an offset; write a time zone as in Europe/Berlin, or Etc/GMT-1 for UTC+1 all year`;
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return undefined;
  } catch {
    return `tz: "${zone}" is no time zone; write one as in Europe/Berlin or UTC`;
  }
}

/**
 * Returns what is wrong with a cron expression, or undefined. `afterMs` is now: an expression
 * without a tick in the years after it is wrong, too.
 */
export function cronProblem(cron: string, zone: string, afterMs: number): string | undefined {
  const parts = cron.split(" ");
  // To the library it means the time when it reads the expression, which differs at each start.
  const question = parts.findIndex((part) => part.includes("?"));
  if (question >= 0) return `cron: field ${question + 1}: "${parts[question]}" has a "?"; write * instead`;
  if (cron.startsWith("@") ? !NAMED.test(cron) : parts.length < 5 || parts.length > 7)
    return `cron: "${cron}" has not five, six or seven fields, and is none of @hourly, @daily, @weekly, @monthly, @yearly`;
  try {
    const next = new BoundedCron(cron, zone).nextRun(afterMs);
    return next === null ? `cron: "${cron}" has no time in the next 40 years` : undefined;
  } catch {
    return fieldProblem(parts, zone) ?? `cron: "${cron}" is no cron expression`;
  }
}

/** Returns which field is wrong: it is so, too, where all others are `*`. */
function fieldProblem(parts: readonly string[], zone: string): string | undefined {
  const first = parts.length === 5 ? 1 : 0;
  for (const [index, part] of parts.entries()) {
    const alone = parts.map((_, other) => (other === index ? part : "*")).join(" ");
    try {
      new BoundedCron(alone, zone);
    } catch {
      assert(first + index < FIELDS.length, "a field of an expression has a name");
      const [name, values] = FIELDS[first + index]!;
      return `cron: field ${index + 1} (${name}): "${part}" is not *, ${values}, or lists, ranges and steps of them`;
    }
  }
  return undefined;
}
