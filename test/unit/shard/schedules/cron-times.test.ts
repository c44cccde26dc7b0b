// Tests of cron expressions: what is wrong with one, and daylight saving.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Cron } from "croner";
import fc from "fast-check";
import {
  CronTimes,
  cronProblem,
  ZoneClock,
  zoneProblem,
} from "../../../../src/shard/schedules/cron-times.ts";
import { changesIn, type Expression, walk } from "../../../simulation/schedules/tick-oracle.ts";
import { checkProperty, printSeed, seed } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { inWhole } from "../../../support/whole.ts";

/** A search takes a few ms at most, and much less on average. */
const SEARCH_MS_MAX = 15;
const NOW_MS = Date.parse("2026-03-01T00:00Z");

/** The first ticks of an expression in Berlin after a time. */
function ticks(cron: string, after: string, count: number): string[] {
  const times = new CronTimes();
  const found: string[] = [];
  let atMs = Date.parse(after);
  while (found.length < count) {
    atMs = times.next({ cron, zone: "Europe/Berlin", everyMs: 0 }, atMs);
    found.push(new Date(atMs).toISOString().slice(0, 16));
  }
  return found;
}

describe("a cron expression", () => {
  it("is read in its zone, through both changes of the clocks", () => {
    const spring = ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"];
    assert.deepEqual(ticks("30 2 * * *", "2026-03-27T12:00Z", 3), spring);
    const autumn = ["2026-10-24T00:30", "2026-10-25T00:30", "2026-10-26T01:30"];
    assert.deepEqual(ticks("30 2 * * *", "2026-10-23T12:00Z", 3), autumn);
    const hours = ["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"];
    assert.deepEqual(ticks("0 * * * *", "2026-10-24T23:30Z", 3), hours);
  });

  it("has the times of a gap even if the search begins in the last second before it", () => {
    for (const ms of [-1000, -999, -500, -1])
      for (const [cron, zone, change] of [
        ["30 2 * * *", "Europe/Berlin", "2027-03-28T01:00Z"],
        ["59 59 1,2 * * *", "Europe/Berlin", "2027-03-28T01:00Z"],
        ["30 2 * * *", "America/New_York", "2027-03-14T07:00Z"],
        ["15 2 * * *", "Australia/Lord_Howe", "2026-10-03T15:30Z"],
        ["30 23 * * *", "America/Nuuk", "2026-03-29T01:00Z"],
      ] as const) {
        const changeMs = Date.parse(change);
        const nextMs = new CronTimes().next({ cron, zone, everyMs: 0 }, changeMs + ms);
        assert.equal(nextMs, changeMs, `${cron} ${zone} ${ms}`);
      }
  });

  it("with both day fields matches either of them, and with a + both", () => {
    const days = (cron: string): string[] =>
      ticks(cron, "2026-11-01T00:00Z", 4).map((text) => text.slice(5, 10));
    assert.deepEqual(days("0 12 10 * FRI"), ["11-06", "11-10", "11-13", "11-20"]);
    assert.deepEqual(days("0 12 10 * *"), ["11-10", "12-10", "01-10", "02-10"]);
    assert.deepEqual(days("0 12 * * FRI"), ["11-06", "11-13", "11-20", "11-27"]);
    assert.deepEqual(days("0 12 13 * +FRI"), ["11-13", "08-13", "10-13", "04-13"]);
  });

  it("that is wrong is told with its field", () => {
    for (const [cron, problem] of [
      ["0 25 * * *", /field 2 \(hour\): "25" is not \*, 0 to 23/],
      ["0 0 32 * *", /field 3 \(day\): "32"/],
      ["0 0 * FOO *", /field 4 \(month\): "FOO"/],
      ["61 0 0 * * *", /field 1 \(second\): "61"/],
      ["* * *", /has not five, six or seven fields/],
      ["@reboot", /is none of @hourly/],
      ["? * * * *", /field 1: "\?" has a "\?"/],
      ["0 0 30 2 *", /no time in the next 40 years/],
    ] as const)
      assert.match(cronProblem(cron, "UTC", NOW_MS) ?? "", problem);
    for (const cron of ["*/5 * * * *", "@daily", "0 0 L * *", "30 2 * * MON-FRI", "0 0 9 1 1 * 2027"])
      assert.equal(cronProblem(cron, "UTC", NOW_MS), undefined, cron);
  });

  it("without a time is refused soon", () => {
    // The first format of a process loads the data of all zones.
    zoneProblem("Europe/Berlin");
    let longestMs = 0;
    for (const cron of [
      "* * 2-2/1 * 3 SUN#L",
      "* * * 1-27 * +MON#5,TUE#5,WED#5,THU#5,FRI#5,SAT#5,SUN#5 2026-9999",
      "0 0 0 31 2,4,6,9,11 * 1-9999",
      "0 0 0 1 1 * 9999",
      "0 0 30 2 *",
      "0 0 31 2,4,6,9,11 *",
      `* * 2-2/1 31 3 +${"SUN#L,".repeat(8)}SUN#L`,
      `0 0 0 29 2 +1,${"1,".repeat(30)}1 2029,2031`,
      `0 0 0 30 2 +1 ${"1-9999,".repeat(14)}1-9999`,
    ]) {
      let bestMs = Number.POSITIVE_INFINITY;
      for (let attempt = 0; attempt < 5; attempt++) {
        const before = process.threadCpuUsage();
        const problem = cronProblem(cron, "Europe/Berlin", NOW_MS) ?? "";
        const { user, system } = process.threadCpuUsage(before);
        bestMs = Math.min(bestMs, (user + system) / 1000);
        assert.match(problem, /no time in the next 40 years/);
      }
      longestMs = Math.max(longestMs, bestMs);
      const timing = { cron, zone: "Europe/Berlin", everyMs: 0 };
      assert.equal(new CronTimes().next(timing, NOW_MS), Number.POSITIVE_INFINITY);
    }
    assert.ok(longestMs < SEARCH_MS_MAX, `a search takes ${longestMs} ms`);
  });

  it("is never searched behind all time", () => {
    const timing = { cron: "0 0 * * *", zone: "Europe/Berlin", everyMs: 0 };
    for (const afterMs of [Number.POSITIVE_INFINITY, Number.NaN, Number.MAX_VALUE, 8.64e15])
      assert.equal(new CronTimes().next(timing, afterMs), Number.POSITIVE_INFINITY);
  });

  it("has its times behind all that it must skip", () => {
    const first = (cron: string, zone: string, after: string): string =>
      new Date(new CronTimes().next({ cron, zone, everyMs: 0 }, Date.parse(after))).toISOString();
    assert.equal(
      first("* * 1-2 * * *", "Antarctica/Troll", "2026-03-29T00:59:59Z"),
      "2026-03-29T23:00:00.000Z",
    );
    assert.equal(first("0 0 29 2 +MON", "UTC", "2072-03-01T00:00Z"), "2112-02-29T00:00:00.000Z");
    assert.equal(
      first("0 0 0 1 1 * 2030,2066", "Asia/Tokyo", "2029-12-31T15:00Z"),
      "2065-12-31T15:00:00.000Z",
    );
    assert.equal(first("0 0 * * *", "Pacific/Kiritimati", "2026-12-31T09:59Z"), "2026-12-31T10:00:00.000Z");
    assert.equal(first("0 0 31 12 *", "America/Adak", "2027-01-01T09:00Z"), "2027-12-31T10:00:00.000Z");
    // Its clock goes from 23:00 to midnight, and Samoa's had no 30 December.
    assert.equal(first("30 23 * * *", "America/Nuuk", "2026-03-28T02:00Z"), "2026-03-29T01:00:00.000Z");
    assert.equal(first("45 23 * * *", "America/Nuuk", "2026-03-29T01:00Z"), "2026-03-30T00:45:00.000Z");
    assert.equal(first("30 12 30 * *", "Pacific/Apia", "2011-12-01T00:00Z"), "2012-01-29T22:30:00.000Z");
    assert.equal(first("59 23 31 12 *", "America/Adak", "2027-01-01T09:00Z"), "2027-01-01T09:59:00.000Z");
  });

  it("in an unknown zone is refused, and never has a time if it is in the log", () => {
    assert.match(zoneProblem("Mars/Base") ?? "", /"Mars\/Base" is no time zone/);
    assert.equal(zoneProblem("America/New_York"), undefined);
    for (const offset of ["+01:00", "-0330", "+02"])
      assert.match(zoneProblem(offset) ?? "", /is an offset; write a time zone as in Europe\/Berlin/);
    for (const short of ["IST", "PST", "bst", "AST", "SystemV/PST8"])
      assert.ok(zoneProblem(short)?.includes(`"${short}" is no IANA time zone`));
    for (const name of ["Etc/GMT-1", "UTC", "CET", "EST5EDT", "GB"])
      assert.equal(zoneProblem(name), undefined);
    const timing = { cron: "* * * * *", zone: "Mars/Base", everyMs: 0 };
    assert.equal(new CronTimes().next(timing, NOW_MS), Number.POSITIVE_INFINITY);
  });
});

it("finds a change of the clocks between times that are no whole seconds", () => {
  const clock = ZoneClock.of("Europe/Berlin");
  const changeMs = Date.parse("2026-03-29T01:00Z");
  for (const [before, after] of [
    [100, 1100],
    [1, 1],
    [999, 1],
    [500, 1600],
  ] as const)
    assert.equal(clock.changeMs(changeMs - before, changeMs + after), changeMs);
  assert.equal(clock.changeMs(changeMs - 7_200_100, changeMs + 1100), changeMs);
});

// Compares our search for the ticks of random expressions with that of the library, which tries one
// time after another: near changes of clocks and anywhere.

describe("cron library", () => {
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

  /**
   * A time shortly before or after the first change of the zone's clock behind this one, if any.
   */
  function nearChange(zone: string, afterMs: number, random: SeededRandom): number {
    const clock = ZoneClock.of(zone);
    let atMs = afterMs;
    const before = clock.offsetMs(atMs);
    while (clock.offsetMs(atMs) === before && atMs < afterMs + YEAR_MS) atMs += 24 * HOUR_MS;
    const changeMs = atMs < afterMs + YEAR_MS ? clock.changeMs(atMs - 24 * HOUR_MS, atMs) : afterMs;
    return changeMs + random.between(-5 * HOUR_MS, 5 * HOUR_MS);
  }

  /**
   * The library searches for times that never come up to the year 10,000, which can take minutes:
   * it gets the years in which TICKS ticks may lie instead of all, or of each nth.
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
});

// Compares the search for ticks with a walk over each second of the zone's clock, around the
// moments at which the clock goes ahead or back.

const RUNS = inWhole(10_000, 1000);
const SECOND_MS = 1000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const STEPS_MAX = 400;

/** Clocks that go ahead at night, at midnight, by half an hour, by two, or by a whole day. */
const ZONES = [
  ["Europe/Berlin", 2027],
  ["America/New_York", 2027],
  ["Australia/Lord_Howe", 2026],
  ["Antarctica/Troll", 2026],
  ["Africa/Casablanca", 2026],
  ["Africa/Cairo", 2026],
  ["America/Santiago", 2026],
  ["America/Nuuk", 2026],
  ["Pacific/Chatham", 2026],
  ["Pacific/Apia", 2011],
  ["Asia/Tehran", 2021],
] as const;
const CHANGES = ZONES.flatMap(([zone, year]) => changesIn(zone, year).map((atMs) => ({ zone, atMs })));

/** A field of an expression, and its values. */
interface Field {
  readonly text: string;
  readonly has: (value: number) => boolean;
}

const every: Field = { text: "*", has: () => true };

/** Fields of a few values, a range, steps of a range, or steps of all from `least` on. */
function field(low: number, high: number, least = low): fc.Arbitrary<Field> {
  const value = fc.integer({ min: low, max: high });
  const step = fc.integer({ min: 1, max: 7 });
  return fc.oneof(
    fc.uniqueArray(value, { minLength: 1, maxLength: 3 }).map((values) => ({
      text: values.join(","),
      has: (given: number) => values.includes(given),
    })),
    fc.tuple(value, value, step).map(([one, other, by]) => {
      const [from, to] = [Math.min(one, other), Math.max(one, other)];
      return {
        text: by === 1 ? `${from}-${to}` : `${from}-${to}/${by}`,
        has: (given: number) => given >= from && given <= to && (given - from) % by === 0,
      };
    }),
    // All, and still fixed.
    fc.constant({ text: `${low}-${high}`, has: (given: number) => given >= low && given <= high }),
    step.map((by) => ({ text: `*/${by}`, has: (given: number) => (given - least) % by === 0 })),
  );
}

/** One of `weight` + 1 fields is not `*`. */
const orEvery = (weight: number, of: fc.Arbitrary<Field>): fc.Arbitrary<Field> =>
  fc.oneof({ weight, arbitrary: fc.constant(every) }, { weight: 1, arbitrary: of });

const expression: fc.Arbitrary<Expression> = fc
  .record({
    second: fc.option(fc.oneof(field(0, 59), field(0, 59), fc.constant(every)), { nil: undefined }),
    minute: fc.oneof(field(0, 59), field(0, 59), fc.constant(every)),
    // The hours in which clocks change.
    hour: fc.oneof(field(0, 4), field(0, 4), field(21, 23, 0), field(0, 23), fc.constant(every)),
    day: orEvery(9, field(1, 31)),
    month: orEvery(19, field(1, 12)),
    weekday: orEvery(9, field(0, 6)),
  })
  .map(({ second, minute, hour, day, month, weekday }) => ({
    cron: [second, minute, hour, day, month, weekday].flatMap((each) => each?.text ?? []).join(" "),
    isFixed: ![second, minute, hour].some((each) => each !== undefined && /[*/]/.test(each.text)),
    matches: (local) => {
      const isDay = day.has(local.getUTCDate());
      const isWeekday = weekday.has(local.getUTCDay());
      // If both are given, one of them is enough.
      const isEither = day !== every && weekday !== every;
      // Without a field, the second is 0.
      return (
        (second?.has(local.getUTCSeconds()) ?? local.getUTCSeconds() === 0) &&
        minute.has(local.getUTCMinutes()) &&
        hour.has(local.getUTCHours()) &&
        (isEither ? isDay || isWeekday : isDay && isWeekday) &&
        month.has(local.getUTCMonth() + 1)
      );
    },
  }));

/** When a search begins, after the change. */
const begin = fc.oneof(
  fc.integer({ min: -SECOND_MS, max: -1 }),
  fc.integer({ min: -2 * SECOND_MS, max: 2 * SECOND_MS }),
  fc.integer({ min: -2 * HOUR_MS, max: 3 * HOUR_MS }),
);

it("a search finds the ticks that a walk finds, whenever it begins", (t) => {
  let compared = 0;
  checkProperty(
    t,
    fc.property(
      expression,
      fc.constantFrom(...CHANGES),
      begin,
      fc.integer({ min: 0, max: STEPS_MAX }),
      ({ cron, isFixed, matches }, { zone, atMs }, beginMs, steps) => {
        const fromMs = atMs + beginMs;
        const stepMs = cron.split(" ").length === 6 ? SECOND_MS : MINUTE_MS;
        const untilMs = fromMs + steps * stepMs;
        const expected = walk({ cron, isFixed, matches }, zone, fromMs, untilMs, stepMs);
        const times = new CronTimes();
        const next = (afterMs: number): number => times.next({ cron, zone, everyMs: 0 }, afterMs);
        let lastMs = fromMs;
        for (const tickMs of expected) {
          assert.equal(iso(next(lastMs)), iso(tickMs), `${cron} in ${zone} after ${iso(lastMs)}`);
          lastMs = tickMs;
        }
        const restMs = next(lastMs);
        assert.ok(restMs > untilMs, `${cron} in ${zone}: no ${iso(restMs)} after ${iso(lastMs)}`);
        compared += expected.length;
      },
    ),
    RUNS,
  );
  assert.ok(compared > RUNS, "most expressions have several ticks");
});

const iso = (ms: number): string => (ms === Number.POSITIVE_INFINITY ? "none" : new Date(ms).toISOString());
