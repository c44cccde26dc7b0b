// Tests that each figure is a metric of its own, with its labels and its unit.

import assert from "node:assert/strict";
import { it } from "node:test";
import { type Family, histogram } from "../../../../src/http/metrics/metrics-text.ts";
import { flowFamilies } from "../../../../src/http/metrics/server-families.ts";
import {
  countersOfAll,
  seriesOf,
  tubeFamilies,
  tubeStateFamilies,
} from "../../../../src/http/metrics/tube-families.ts";
import { TubeEntry } from "../../../../src/http/state/tube-cache.ts";
import type { ShardTotals } from "../../../../src/message/control.ts";
import { wordOf } from "../../../../src/schema/names.ts";
import { TUBE_COUNTERS, TUBE_FIELDS, TubeField } from "../../../../src/schema/tube.ts";

/** All samples, each with its labels in its name. */
function samplesOf(families: Iterable<Family>): Record<string, number> {
  const found: Record<string, number> = {};
  for (const { name, type, samples } of families)
    for (const { value, labels = {}, suffix = "" } of samples) {
      const words = Object.entries(labels).map(([label, of]) => `${label}=${of}`);
      const key = [`${type} ${name}${suffix}`, ...words].join(" ");
      assert.ok(!(key in found), key);
      found[key] = value;
    }
  return found;
}

/** The part of a shard's totals about batches and schedules; no two figures are the same. */
const FLOWS = {
  batches: { open: 1, committed: 2, cancelled: 3, complete: 4, openMs: 5000, unfinishedMs: 6000 },
  flows: {
    ...{ batchesOpened: 7, batchesSuccess: 8, batchesFailure: 9, batchesCancelled: 10, members: 11 },
    ...{ membersDone: 12, membersFailed: 13, callbacksWaiting: 14, callbacksReleased: 15 },
    ...{ callbacksBuried: 16, schedules: 1000, schedulesPaused: 17, schedulesRefused: 18, ticksPut: 19 },
    ...{ ticksMissed: 20, ticksDuplicate: 21, ticksSkipped: 26, scheduleRefusals: 22, scheduleRuns: 23 },
  },
  ...{ scheduleLateMs: 24_000, scheduleNextMs: 25_000 },
} as ShardTotals;

it("batches and schedules have each of their figures", () => {
  const expected = {
    ...{ "gauge batches state=open": 1, "gauge batches state=committed": 2 },
    ...{ "gauge batches state=cancelled": 3, "gauge batches state=complete": 4 },
    ...{ "counter batches_opened": 7, "counter batches_completed outcome=success": 8 },
    "counter batches_completed outcome=failure": 9,
    "counter batches_completed outcome=cancelled": 10,
    ...{ "gauge batch_open_seconds": 5, "gauge batch_unfinished_seconds": 6, "gauge batch_members": 11 },
    ...{ "counter batch_members_ended how=done": 12, "counter batch_members_ended how=failed": 13 },
    ...{ "gauge batch_callbacks_waiting": 14, "counter batch_callbacks how=released": 15 },
    ...{ "counter batch_callbacks how=buried": 16, "gauge schedules state=active": 1000 - 17 - 18 },
    ...{ "gauge schedules state=paused": 17, "gauge schedules state=refused": 18 },
    ...{ "gauge schedule_next_seconds": 25, "gauge schedule_late_seconds": 24 },
    ...{ "counter schedule_ticks how=put": 19, "counter schedule_ticks how=missed": 20 },
    ...{ "counter schedule_ticks how=duplicate": 21, "counter schedule_refusals": 22 },
    ...{ "counter schedule_runs": 23, "counter schedule_ticks how=skipped": 26 },
  };
  assert.deepEqual(samplesOf(flowFamilies(FLOWS)), expected);
  const { "gauge schedule_next_seconds": _, ...without } = expected;
  const none = { ...FLOWS, scheduleNextMs: Number.POSITIVE_INFINITY };
  assert.deepEqual(samplesOf(flowFamilies(none)), without);
});

const NOW_MS = 1_000_000;
const rowOf = (first: number, changes: Readonly<Record<number, number>> = {}): Float64Array =>
  Float64Array.from({ length: TUBE_FIELDS }, (_, field) => changes[field] ?? first + field);
const entryOf = (name: string, row: Float64Array): TubeEntry => new TubeEntry(name, 0, row, NOW_MS);

/** The gauges of a tube, from how to get a field of all its entries. */
const gaugesBy = (tube: string, at: (field: number) => number, age: (field: number) => number) => ({
  [`gauge tube_jobs tube=${tube} state=ready`]: at(TubeField.ready),
  [`gauge tube_jobs tube=${tube} state=reserved`]: at(TubeField.reserved),
  [`gauge tube_jobs tube=${tube} state=delayed`]: at(TubeField.delayed),
  [`gauge tube_jobs tube=${tube} state=buried`]: at(TubeField.buried),
  [`gauge tube_oldest_ready_seconds tube=${tube}`]: age(TubeField.oldestReadyAtMs),
  [`gauge tube_oldest_buried_seconds tube=${tube}`]: age(TubeField.oldestBuriedAtMs),
  [`gauge tube_body_bytes tube=${tube}`]: at(TubeField.bodyBytes),
  [`gauge tube_users tube=${tube}`]: at(TubeField.users),
  [`gauge tube_watchers tube=${tube}`]: at(TubeField.watchers),
  [`gauge tube_waiters tube=${tube}`]: at(TubeField.waiters),
  [`gauge tube_holds_dead tube=${tube}`]: at(TubeField.holdsDead),
  [`gauge tube_lost_job_disconnects tube=${tube}`]: at(TubeField.lostJobDisconnects),
  [`gauge tube_pause_seconds tube=${tube}`]: at(TubeField.pauseUntilMs),
});

it("a tube has each of its figures, and the others together have their sums", () => {
  const paused = (seconds: number) => ({ [TubeField.pauseUntilMs]: NOW_MS + 1000 * seconds });
  const tubes = [
    entryOf("own", rowOf(100, paused(3))),
    entryOf("a", rowOf(200, paused(5))),
    entryOf("b", rowOf(400, paused(4))),
  ];
  const countersFrom = (first: number) =>
    Object.fromEntries(TUBE_COUNTERS.map((name, at) => [name, first + at])) as ReturnType<
      typeof countersOfAll
    >;
  const table = new Map(tubes.map((entry) => [entry.name, entry]));
  const own = new Map([
    ["own", countersFrom(5000)],
    ["gone", countersFrom(6000)],
  ]);
  const counted = (tube: string, first: number) =>
    Object.fromEntries(
      TUBE_COUNTERS.map((name, at) => {
        const word = wordOf(name, "_");
        return [`counter tube_${word} tube=${tube}`, first + at];
      }),
    );
  const pauses: Readonly<Record<string, number>> = { own: 3, "*": 5, gone: 0 };
  // A tube shows the worst of its jobs, not their sum.
  const { lostJobDisconnects } = TubeField;
  const worst: Readonly<Record<string, number>> = {
    own: 100 + lostJobDisconnects,
    "*": 400 + lostJobDisconnects,
    gone: 0,
  };
  const gauges = (tube: string, sum: (field: number) => number, oldest: number) =>
    gaugesBy(
      tube,
      (field) =>
        field === TubeField.pauseUntilMs
          ? pauses[tube]!
          : field === lostJobDisconnects
            ? worst[tube]!
            : sum(field),
      (field) => (oldest === 0 ? 0 : (NOW_MS - oldest - field) / 1000),
    );
  assert.deepEqual(samplesOf(tubeFamilies(seriesOf(table, own, countersFrom(7000)), NOW_MS)), {
    ...gauges("own", (field) => 100 + field, 100),
    ...gauges("gone", () => 0, 0),
    ...gauges("*", (field) => 600 + 2 * field, 200),
    ...counted("own", 5000),
    ...counted("gone", 6000),
    ...counted("*", 7000),
  });
});

it("a tube without counters of its own has those of its entries", () => {
  const found = samplesOf(tubeFamilies([{ tube: "t", entries: [entryOf("t", rowOf(100))] }], NOW_MS));
  for (const name of TUBE_COUNTERS) {
    const word = wordOf(name, "_");
    assert.equal(found[`counter tube_${word} tube=t`], 100 + TubeField[name]);
  }
});

it("the server's totals have each counter of tubes", () => {
  const totals = Object.fromEntries(TUBE_COUNTERS.map((name, at) => [name, 10 + at]));
  assert.deepEqual(countersOfAll({ ...FLOWS, ...totals, touches: 99 } as ShardTotals), totals);
});

it("tubes that need attention are counted, each for its own reason", () => {
  const { ready, watchers, pauseUntilMs, holdsDead } = TubeField;
  const lonely = { [ready]: 1, [watchers]: 0, [pauseUntilMs]: NOW_MS, [holdsDead]: 0 };
  const counted = (changes: Readonly<Record<number, number>>): number[] =>
    Object.values(
      samplesOf(
        tubeStateFamilies(new Map([["t", entryOf("t", rowOf(100, { ...lonely, ...changes }))]]), NOW_MS),
      ),
    );
  assert.deepEqual(counted({}), [1, 0, 0]);
  assert.deepEqual(counted({ [ready]: 0 }), [0, 0, 0]);
  assert.deepEqual(counted({ [watchers]: 1 }), [0, 0, 0]);
  assert.deepEqual(counted({ [pauseUntilMs]: NOW_MS + 1 }), [0, 1, 0]);
  assert.deepEqual(counted({ [holdsDead]: 1 }), [0, 0, 1]);
});

it("a histogram counts each bucket with all below it", () => {
  const family = histogram("h", "Help.", [1, 2.5], [{ counts: [3, 4, 5], sum: 6.5, labels: { tube: "t" } }]);
  assert.deepEqual(samplesOf([family]), {
    ...{ "histogram h_bucket tube=t le=1": 3, "histogram h_bucket tube=t le=2.5": 7 },
    ...{
      "histogram h_bucket tube=t le=+Inf": 12,
      "histogram h_sum tube=t": 6.5,
      "histogram h_count tube=t": 12,
    },
  });
});
