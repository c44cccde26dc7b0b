// Tests of schedules that are set: the limits of their bodies and of their number, what a refusal
// leaves, and what a schedule that is set again goes on with.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import {
  NO_SINK,
  SCHEDULES_MAX,
  type ScheduleFacts,
  type Schedules,
} from "../../../../src/engine/schedules.ts";
import { Missed, SCHEDULE_BODY_BYTES_MAX } from "../../../../src/protocol/schedule-options.ts";
import { checkArenaAtRest } from "../../../support/in-process/engine-invariants.ts";
import { snapshotOf } from "../../../support/in-process/engine-snapshot.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { tubeOn } from "../../../support/tube-on.ts";

/** The time of the server's clocks. */
const NOW_MS = 1000;
const EVERY_MS = 3_600_000;

interface Scene {
  readonly server: HandDrivenServer;
  readonly schedules: readonly Schedules[];
  /** Sets a schedule on a shard; no body may be left over. */
  readonly set: (name: string, shard: number, bytes?: number, seconds?: number) => string;
}

function scene(shards: number): Scene {
  const server = new HandDrivenServer(shards);
  const client = server.connect(true);
  const set = (name: string, shard: number, bytes = 1, seconds = EVERY_MS / 1000): string => {
    const head = `set-schedule ${name} ${tubeOn(shard, shards)} 0 0 60 ${bytes} every=${seconds}`;
    client.say(`${head}\r\n${"x".repeat(bytes)}\r\n`);
    server.settle();
    for (const { engine } of server.shards) checkArenaAtRest(engine);
    return client.take().trimEnd();
  };
  return { server, schedules: server.shards.map(({ engine }) => engine.schedules), set };
}

/** All that a server has, with what each schedule goes on with. */
const allOf = ({ server, schedules }: Scene): unknown[] => [
  server.shards.map(({ engine }) => snapshotOf(engine)),
  schedules.map(({ table }) =>
    [...table.values()].map((each) => ({ ...each, timer: each.timer.atMs, freezers: [...each.freezers] })),
  ),
];

/** Fills a table up to this number of schedules. */
function fill(schedules: Schedules, size: number): void {
  const timing = { cron: "", zone: "UTC", everyMs: EVERY_MS };
  const times = { pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, ttlMs: 0 };
  const counts = {
    lastMs: 0,
    heldMs: 0,
    lateJobs: 0,
    fired: 0,
    runs: 0,
    missedTicks: 0,
    duplicates: 0,
    refusals: 0,
  };
  const progress = { version: 1, anchorMs: 0, nextMs: EVERY_MS, paused: false, ...counts };
  const body = { handle: EMPTY_BODY, bytes: 0 };
  for (let id = 1_000_000; schedules.table.size < size; id++) {
    const attributes = new Uint8Array(0);
    const facts: ScheduleFacts = {
      ...{ name: `s${id}`, tube: "t", timing, missed: Missed.Once, ...times, attributes },
    };
    assert.ok(schedules.set(id, true, facts, progress, body));
  }
}

describe("the body of a schedule", () => {
  const length = SCHEDULE_BODY_BYTES_MAX;
  for (const shards of [1, 2])
    for (const [bytes, reply] of [
      [0, "SET"],
      [length - 1, "SET"],
      [length, "SET"],
      [length + 1, "JOB_TOO_BIG"],
      [2 * length + 1, "JOB_TOO_BIG"],
    ] as const)
      it(`${bytes} bytes: ${reply}, ${shards} shards`, () => {
        const all = scene(shards);
        const { schedules, set } = all;
        assert.equal(set("s", 0, 7), "SET");
        const before = allOf(all);
        assert.equal(set("s", 0, bytes), reply);
        if (reply === "SET") assert.equal(schedules[0]!.table.get("s")!.bodyBytes, bytes);
        else assert.deepEqual(allOf(all), before);
      });
});

describe("another timing just after the clock went back", () => {
  for (const [seconds, aheadMs, nextMs] of [
    [10, -1, NOW_MS + 10_000],
    [10, 0, NOW_MS + 10_000],
    [10, 10_000, NOW_MS + 20_000],
    [10, 60_000, NOW_MS + 70_000],
    [10, 60_001, NOW_MS + 10_000],
    [3600, 3_599_000, NOW_MS + 3_600_000],
  ] as const)
    it(`every ${seconds} s, the last tick ${aheadMs} ms ahead: no tick comes again`, () => {
      const { schedules, set } = scene(1);
      assert.equal(set("s", 0, 1, 7), "SET");
      const { table } = schedules[0]!;
      table.get("s")!.lastMs = NOW_MS + aheadMs;
      assert.equal(set("s", 0, 1, seconds), "SET");
      assert.equal(table.get("s")!.nextMs, nextMs);
    });
});

describe("a shard with as many schedules as it may have", () => {
  for (const shards of [1, 2]) {
    it(`sets one that it has, and refuses a new one, ${shards} shards`, () => {
      const all = scene(shards);
      const { schedules, set } = all;
      fill(schedules[0]!, SCHEDULES_MAX - 1);
      assert.equal(set("last", 0), "SET");
      const before = allOf(all);
      assert.equal(set("new", 0, 100), "OUT_OF_MEMORY");
      assert.deepEqual(allOf(all), before);
      assert.equal(set("last", 0, 50), "SET");
      assert.equal(schedules[0]!.table.get("last")!.bodyBytes, 50);
      assert.equal(schedules[0]!.table.size, SCHEDULES_MAX);
    });
  }

  it("takes over none from another shard, which goes on with it", () => {
    const all = scene(2);
    const { schedules, set } = all;
    assert.equal(set("s", 1, 30), "SET");
    fill(schedules[0]!, SCHEDULES_MAX);
    const before = allOf(all);
    assert.equal(set("s", 0, 100), "OUT_OF_MEMORY");
    assert.deepEqual(allOf(all), before);
    assert.equal(schedules[1]!.table.timers.nextAtMs, NOW_MS + EVERY_MS);
  });
});

describe("a log without room", () => {
  for (const shards of [1, 2])
    for (const from of Array.from({ length: shards }, (_, shard) => shard))
      it(`refuses a schedule and its body; that of shard ${from} stays, ${shards} shards`, () => {
        const all = scene(shards);
        const { schedules, set } = all;
        assert.equal(set("s", from, 30), "SET");
        schedules[0]!.sink = { ...NO_SINK, scheduled: () => false };
        const before = allOf(all);
        for (let round = 0; round < 2; round++) {
          assert.equal(set("s", 0, 100, 60), "OUT_OF_MEMORY");
          assert.equal(set("new", 0, 100), "OUT_OF_MEMORY");
          assert.deepEqual(allOf(all), before);
        }
        schedules[0]!.sink = NO_SINK;
        assert.equal(set("s", 0, 100), "SET");
        assert.deepEqual(
          schedules.map(({ table }) => table.size),
          [1, 0].slice(0, shards),
        );
      });
});

describe("a schedule whose next tick a clock that was ahead has set", () => {
  for (const [shards, to] of [
    [1, 0],
    [2, 0],
    [2, 1],
  ] as const)
    it(`has one by the present clock when it is set again, on shard ${to} of ${shards}`, () => {
      const { schedules, set } = scene(shards);
      assert.equal(set("s", 0), "SET");
      const schedule = schedules[0]!.table.get("s")!;
      schedule.anchorMs = 1000 * EVERY_MS;
      schedule.nextMs = 1001 * EVERY_MS;
      schedules[0]!.table.setTimer(schedule);
      assert.equal(set("s", to), "SET");
      const { anchorMs, nextMs, timer } = schedules[to]!.table.get("s")!;
      assert.deepEqual([anchorMs, nextMs, timer.atMs], [NOW_MS, NOW_MS + EVERY_MS, NOW_MS + EVERY_MS]);
    });
});

describe("a schedule with a version that no server has assigned yet, as in an edited dump", () => {
  for (const to of [0, 1])
    it(`is set again, on shard ${to} of 2, and has a later one`, () => {
      const { schedules, set } = scene(2);
      assert.equal(set("s", 0), "SET");
      schedules[0]!.table.get("s")!.version = 1e12;
      for (const shard of [to, 1 - to, to]) assert.equal(set("s", shard), "SET");
      assert.equal(schedules[to]!.table.get("s")!.version, 1e12 + 3);
      assert.equal(schedules[1 - to]!.table.size, 0);
    });
});
