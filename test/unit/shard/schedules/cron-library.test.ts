// Compares our search for the ticks of random expressions with that of the library, which tries one
// time after another: near changes of clocks and anywhere.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Cron } from "croner";
import { CronTimes, ZoneClock } from "../../../../src/shard/schedules/cron-times.ts";
import { printSeed, seed } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { inWhole } from "../../../support/whole.ts";

const EXPRESSIONS = inWhole(5000, 200);
const TICKS = 4;
/** From the first begin on: 20 until the last one, and 41 for each tick. */
const YEARS = 21 + 41 * (TICKS + 1);
const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;
const BEGIN_MS = Date.parse("2024-01-01T00:00Z");
// Not America/Nuuk, whose gap ends at midnight: the library has no time for 23:30 there.
const ZONES = [
  "UTC",
  "Europe/Berlin",
  "America/New_York",
  "Antarctica/Troll",
  "Australia/Lord_Howe",
  "Asia/Kathmandu",
  "Pacific/Kiritimati",
  "Africa/Casablanca",
  "Africa/Cairo",
  "America/Santiago",
  "Pacific/Chatham",
] as const;
const WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"] as const;

class Expressions {
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  #value(low: number, high: number): string {
    const first = this.#random.between(low, high);
    const last = this.#random.between(first, high);
    const range = `${first}-${last}`;
    return this.#random.pick([`${first}`, `${first}`, range, `${range}/${this.#random.between(1, 5)}`]);
  }

  #field(low: number, high: number, anyChance: number): string {
    if (this.#random.chance(anyChance)) return "*";
    if (this.#random.chance(0.2)) return `*/${this.#random.between(1, high - low)}`;
    return Array.from({ length: this.#random.between(1, 3) }, () => this.#value(low, high)).join(",");
  }

  #day(): string {
    const day = this.#random.between(1, 31);
    return this.#random.pick([
      "L",
      "LW",
      `${day}W`,
      `${day}W,L,3`,
      ...Array(8).fill(this.#field(1, 31, 0.6)),
    ]);
  }

  #weekday(): string {
    const name = this.#random.pick(WEEKDAYS);
    const nth = this.#random.between(1, 5);
    const some = [`${name}#${nth}`, `${nth}L`, `${name},${nth}#2`, "MON-FRI"];
    const field = this.#random.pick([...some, ...Array(8).fill(this.#field(0, 7, 0.6))]);
    return this.#random.chance(0.2) ? `+${field}` : field;
  }

  draw(): string {
    const times = [this.#field(0, 59, 0.4), this.#field(0, 23, 0.3)];
    const fields = [...times, this.#day(), this.#field(1, 12, 0.7), this.#weekday()];
    const years = this.#random.pick(["", "", " *", ` ${this.#field(2024, 2060, 0.2)}`]);
    if (years === "" && this.#random.chance(0.5)) return fields.join(" ");
    return `${this.#field(0, 59, 0.4)} ${fields.join(" ")}${years}`;
  }
}

/** A time shortly before or after the first change of the zone's clock behind this one, if any. */
function nearChange(zone: string, afterMs: number, random: SeededRandom): number {
  const clock = ZoneClock.of(zone);
  let atMs = afterMs;
  const before = clock.offsetMs(atMs);
  while (clock.offsetMs(atMs) === before && atMs < afterMs + YEAR_MS) atMs += 24 * HOUR_MS;
  const changeMs = atMs < afterMs + YEAR_MS ? clock.changeMs(atMs - 24 * HOUR_MS, atMs) : afterMs;
  return changeMs + random.between(-5 * HOUR_MS, 5 * HOUR_MS);
}

/**
 * The library searches for times that never come up to the year 10,000, which can take minutes: it
 * gets the years in which TICKS ticks may lie instead of all, or of each nth.
 */
function withinYears(cron: string): string {
  const fields = cron.split(" ");
  if (fields.length === 5) fields.unshift("0");
  const [years = "*"] = fields.splice(6);
  const every = Number(/^\*\/(\d+)$/.exec(years)?.[1] ?? 1);
  const near = Array.from({ length: YEARS }, (_, n) => 2023 + n).filter((year) => year % every === 0);
  return [...fields, years.startsWith("*") ? near.join(",") : years].join(" ");
}

it("expressions have the library's ticks", (t) => {
  printSeed(t);
  const random = new SeededRandom(seed);
  const expressions = new Expressions(random);
  let compared = 0;
  for (let n = 0; n < EXPRESSIONS; n++) {
    const zone = random.pick(ZONES);
    const cron = expressions.draw();
    const library = new Cron(withinYears(cron), {
      timezone: zone,
      paused: true,
      fixedTimeRule: "no-wildcard",
    });
    const times = new CronTimes();
    let atMs = BEGIN_MS + Math.floor((random.between(0, 20 * YEAR_MS) / 1000) * 1000);
    if (random.chance(0.7)) atMs = nearChange(zone, atMs, random);
    for (let tick = 0; tick < TICKS; tick++) {
      const nextMs = times.next({ cron, zone, everyMs: 0 }, atMs);
      const expectedMs = library.nextRun(new Date(atMs))?.getTime() ?? Number.POSITIVE_INFINITY;
      // We give up after 41 years.
      if (nextMs === Number.POSITIVE_INFINITY && expectedMs > atMs + 40 * YEAR_MS) break;
      assert.equal(nextMs, expectedMs, `${cron} in ${zone} after ${new Date(atMs).toISOString()}`);
      compared++;
      if (nextMs === Number.POSITIVE_INFINITY) break;
      atMs = nextMs;
    }
  }
  assert.ok(compared > EXPRESSIONS, "most expressions have several ticks");
});
