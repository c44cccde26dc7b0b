// The clock of a time zone. A local time is what it shows, as if that were UTC, in ms.

import { assert } from "../../base/assert.ts";

const SECOND_MS = 1000;
const DAY_MS = 86_400_000;
const OFFSET = /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?$/;
/** Zones to keep per thread: creating a format takes 0.1 ms. */
const KEPT_MAX = 100;

/** Where a local time lies: at one time or two, or in a gap that begins and ends at `atMs`. */
export type Place =
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
    if (kept.size > KEPT_MAX) kept.delete(kept.keys().next().value!);
    assert(kept.size <= KEPT_MAX, "the number of kept zones is limited");
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
