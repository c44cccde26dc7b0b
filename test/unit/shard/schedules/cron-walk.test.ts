// Compares the search for ticks with a walk over each second of the zone's clock, around the
// moments at which the clock goes ahead or back.

import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { CronTimes } from "../../../../src/shard/schedules/cron-times.ts";
import { changesIn, type Expression, walk } from "../../../simulation/schedules/tick-oracle.ts";
import { checkProperty } from "../../../support/seeded-property.ts";
import { inWhole } from "../../../support/whole.ts";

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
