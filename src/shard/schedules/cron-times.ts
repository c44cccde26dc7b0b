// The ticks of cron expressions in time zones. The only file that knows croner.

import { Cron } from "croner";
import type { Timing } from "../../engine/schedules/schedule.ts";

/** Expressions that are kept parsed; parsing one takes as long as finding its next tick. */
const KEPT_MAX = 1000;
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
const NAMED = /^@(?:yearly|annually|monthly|weekly|daily|midnight|hourly)$/i;

interface Kept {
  readonly cron: Cron;
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
    return kept.nextMs;
  };

  #parsed({ cron, zone }: Timing): Kept {
    const name = `${zone} ${cron}`;
    let kept = this.#kept.get(name);
    if (kept === undefined) {
      if (this.#kept.size >= KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value!);
      kept = { cron: parsed(cron, zone), afterMs: Number.NaN, nextMs: 0 };
    } else this.#kept.delete(name);
    this.#kept.set(name, kept);
    return kept;
  }
}

/**
 * Returns Infinity, too, if the library errs: a shard must neither end nor put jobs without end. A
 * log may come from a server that knows more time zones.
 */
function nextRun(cron: Cron, afterMs: number): number {
  try {
    const nextMs = cron.nextRun(new Date(afterMs))?.getTime() ?? Number.POSITIVE_INFINITY;
    return nextMs > afterMs ? nextMs : Number.POSITIVE_INFINITY;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/**
 * As in Vixie's cron, an expression without `*` and steps in hour and minute means fixed times: one
 * that the clock skips runs behind the gap, one that comes twice runs once.
 */
function parsed(cron: string, zone: string): Cron {
  return new Cron(cron, { timezone: zone, paused: true, fixedTimeRule: "no-wildcard" });
}

/** Returns what is wrong with the name of a time zone, or undefined. */
export function zoneProblem(zone: string): string | undefined {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return undefined;
  } catch {
    return `tz: "${zone}" is no time zone; write one as in Europe/Berlin or UTC`;
  }
}

/**
 * Returns what is wrong with a cron expression, or undefined. `afterMs` is now: an expression
 * without a tick after it is wrong, too.
 */
export function cronProblem(cron: string, zone: string, afterMs: number): string | undefined {
  const parts = cron.split(" ");
  // To the library it means the time when it reads the expression, which differs at each start.
  const question = parts.findIndex((part) => part.includes("?"));
  if (question >= 0) return `cron: field ${question + 1}: "${parts[question]}" has a "?"; write * instead`;
  if (cron.startsWith("@") ? !NAMED.test(cron) : parts.length < 5 || parts.length > 7)
    return `cron: "${cron}" has not five, six or seven fields, and is none of @hourly, @daily, @weekly, @monthly, @yearly`;
  try {
    const next = parsed(cron, zone).nextRun(new Date(afterMs));
    return next === null ? `cron: "${cron}" has no time after now` : undefined;
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
      parsed(alone, zone);
    } catch {
      const [name, values] = FIELDS[first + index]!;
      return `cron: field ${index + 1} (${name}): "${part}" is not *, ${values}, or lists, ranges and steps of them`;
    }
  }
  return undefined;
}
