// Tests of tubes over HTTP: each figure in its own field, and every order that a list can have.

import assert from "node:assert/strict";
import { it } from "node:test";
import { MeasuredTubes } from "../../../../src/http/state/time-series.ts";
import { TubeEntry } from "../../../../src/http/state/tube-cache.ts";
import { emptyTube, TUBE_SORTS, tubeOrder, tubeView } from "../../../../src/http/tubes/tube-routes.ts";
import { TUBE_FIELDS, TubeField } from "../../../../src/schema/tube.ts";

const NOW_MS = 1_000_000;
const measured = new MeasuredTubes({ tubesMax: 10, tubes: [] });

/** A row in which no two figures are the same. */
const rowOf = (changes: Readonly<Record<number, number>> = {}): Float64Array =>
  Float64Array.from({ length: TUBE_FIELDS }, (_, field) => changes[field] ?? 100 + field);

const COUNTERS = [
  ...["puts", "reserves", "deletes", "releases", "buries", "kicks", "timeouts", "deaths", "expiries"],
  ...["duplicates", "refusals", "rateWaits", "groupRateWaits", "disconnects", "cancels"],
] as readonly (keyof typeof TubeField)[];
const countersBy = (value: (field: number) => number): object =>
  Object.fromEntries(COUNTERS.map((name) => [name, value(TubeField[name])]));

it("a tube has each of its figures", () => {
  const untilMs = NOW_MS + 7500;
  const entry = new TubeEntry("mails", 0, rowOf({ [TubeField.pauseUntilMs]: untilMs }), NOW_MS);
  // Two seconds later each figure has grown by as much as it was.
  const later = rowOf({ [TubeField.pauseUntilMs]: untilMs }).map((value, field) =>
    field >= TubeField.puts ? 2 * value : value,
  );
  entry.renew(later, NOW_MS + 2000);
  const at = (field: number): number => later[field]!;
  assert.deepEqual(tubeView(entry, NOW_MS, measured), {
    name: "mails",
    jobs: {
      ...{ ready: at(TubeField.ready), urgent: at(TubeField.urgent), reserved: at(TubeField.reserved) },
      ...{ delayed: at(TubeField.delayed), buried: at(TubeField.buried) },
    },
    oldestReady: (NOW_MS - at(TubeField.oldestReadyAtMs)) / 1000,
    oldestBuried: (NOW_MS - at(TubeField.oldestBuriedAtMs)) / 1000,
    ...{ bodyBytes: at(TubeField.bodyBytes), users: at(TubeField.users) },
    ...{ watchers: at(TubeField.watchers), waiters: at(TubeField.waiters) },
    pause: { seconds: at(TubeField.pauseSeconds), timeLeft: 7.5 },
    ...{ holdsDead: true, times: null },
    totals: countersBy(at),
    rates: countersBy((field) => (100 + field) / 2),
  });
});

it("a tube without jobs, a pause or a dead job says so, and one that doesn't exist is empty", () => {
  const never = Number.POSITIVE_INFINITY;
  const row = rowOf({
    ...{ [TubeField.oldestReadyAtMs]: never, [TubeField.oldestBuriedAtMs]: never },
    ...{ [TubeField.pauseUntilMs]: NOW_MS, [TubeField.holdsDead]: 0 },
  });
  const view = tubeView(new TubeEntry("t", 0, row, NOW_MS), NOW_MS, measured);
  const { oldestReady, oldestBuried, pause, holdsDead, rates } = view;
  assert.deepEqual([oldestReady, oldestBuried, pause, holdsDead], [null, null, null, false]);
  assert.deepEqual(
    rates,
    countersBy(() => 0),
  );
  const zero = new TubeEntry(
    "t",
    0,
    row.map((value) => (value === never ? never : 0)),
    NOW_MS,
  );
  assert.deepEqual(tubeView(zero, NOW_MS, measured), emptyTube("t"));
  // A shard's clock may be a little ahead.
  const ahead = rowOf({ [TubeField.oldestReadyAtMs]: NOW_MS + 3 });
  assert.equal(tubeView(new TubeEntry("t", 0, ahead, NOW_MS), NOW_MS, measured).oldestReady, 0);
});

/** The field that decides an order. */
const FIELDS: Readonly<Record<string, number>> = {
  ...{ ready: TubeField.ready, urgent: TubeField.urgent, reserved: TubeField.reserved },
  ...{ delayed: TubeField.delayed, buried: TubeField.buried, bodyBytes: TubeField.bodyBytes },
  ...{ users: TubeField.users, watchers: TubeField.watchers, waiters: TubeField.waiters },
  pause: TubeField.pauseUntilMs,
  ...Object.fromEntries(COUNTERS.map((name) => [name, TubeField[name]])),
};
const AGES: Readonly<Record<string, number>> = {
  ...{ oldest: TubeField.oldestReadyAtMs, oldestReady: TubeField.oldestReadyAtMs },
  oldestBuried: TubeField.oldestBuriedAtMs,
};

/** The names of three tubes in the order, of which the second has the larger figure. */
function sorted(sort: string, entries: readonly TubeEntry[], order?: "asc" | "desc"): string {
  return [...entries]
    .sort(tubeOrder(sort, measured, order))
    .map(({ name }) => name)
    .join("");
}

const three = (rows: readonly Float64Array[]): TubeEntry[] =>
  rows.map((row, at) => new TubeEntry("cab"[at]!, 0, row, NOW_MS));

it("tubes are sorted by each figure, the largest first, and the same by name", () => {
  for (const [sort, field] of Object.entries(FIELDS)) {
    // All other figures say the opposite.
    const large = rowOf().map((value, each) => (each === field ? value + 1 : value - 1));
    const entries = three([rowOf(), large, rowOf()]);
    assert.deepEqual([sorted(sort, entries), sorted(sort, entries, "asc")], ["abc", "bca"], sort);
  }
  for (const [sort, field] of Object.entries(AGES)) {
    const older = rowOf().map((value, each) => (each === field ? value - 1 : value + 1));
    const entries = three([rowOf(), older, rowOf()]);
    assert.deepEqual([sorted(sort, entries), sorted(sort, entries, "asc")], ["abc", "bca"], sort);
  }
});

it("tubes are sorted by each rate, and by name", () => {
  for (const name of COUNTERS) {
    const entries = three([rowOf(), rowOf(), rowOf()]);
    for (const entry of entries) {
      const isFast = entry.name === "a";
      entry.renew(
        rowOf().map((value, field) => value + ((field === TubeField[name]) === isFast ? 10 : 5)),
        NOW_MS + 1000,
      );
    }
    assert.equal(sorted(`${name}Rate`, entries), "abc", name);
    assert.equal(sorted(`${name}Rate`, entries, "asc"), "bca", name);
  }
  const entries = three([rowOf(), rowOf(), rowOf()]);
  assert.deepEqual([sorted("name", entries), sorted("name", entries, "desc")], ["abc", "cba"]);
});

it("every order is one of these or of a time, and no other word is one", () => {
  const times = ["waitP50", "waitP99", "holdP50", "holdP99"];
  const rates = COUNTERS.map((name) => `${name}Rate`);
  const all = ["name", "busiest", ...Object.keys(FIELDS), ...Object.keys(AGES), ...rates, ...times];
  assert.deepEqual([...TUBE_SORTS].sort(), all.sort());
  for (const word of ["constructor", "Ready", ""]) assert.throws(() => tubeOrder(word, measured), RangeError);
});
