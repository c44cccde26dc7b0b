// Tests of what commands do to schedules: what is set, put, logged and counted.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes, latin1, Memory } from "../../../src/base/bytes.ts";
import { rowOf } from "../../../src/engine/jobs/job-table.ts";
import {
  isSameTiming,
  Refusal,
  type Schedule,
  type ScheduleFacts,
  type ScheduleProgress,
} from "../../../src/engine/schedules.ts";
import { Attribute, AttributeWriter } from "../../../src/protocol/job-attribute.ts";
import { Missed } from "../../../src/protocol/schedule-options.ts";
import { TracedEngine } from "./traced-engine.ts";

const PROGRESS: ScheduleProgress = {
  ...{ version: 1, anchorMs: 0, nextMs: 10, paused: false, lastMs: 0, heldMs: 0, lateJobs: 0 },
  ...{ fired: 0, runs: 0, missedTicks: 0, duplicates: 0, refusals: 0 },
};
const NEVER = Number.POSITIVE_INFINITY;

class Bench extends TracedEngine {
  /** What the log was told, and whether it has room. */
  readonly records: string[] = [];
  logHasRoom = true;
  #lastId = 0;

  constructor() {
    super();
    const { schedules } = this.engine;
    schedules.takeJobId = () => ++this.#lastId;
    schedules.sink = {
      scheduled: ({ id }, isNew) =>
        this.logHasRoom && this.records.push(`set ${id}${isNew ? " anew" : ""}`) > 0,
      ticked: ({ name, nextMs }) => void this.records.push(`${name} next at ${nextMs}`),
      unscheduled: (id) => void this.records.push(`gone ${id}`),
    };
  }

  plan(
    name: string,
    facts: Partial<ScheduleFacts> = {},
    progress: Partial<ScheduleProgress> = {},
    text = "",
  ): boolean {
    const timing = { cron: "", zone: "UTC", everyMs: 10 };
    const times = { pri: 3, delaySeconds: 0, delayMillis: 0, ttrSeconds: 65, ttlMs: 0 };
    const usual = { name, tube: "u", timing, missed: Missed.Once, attributes: new Uint8Array(0) };
    const all = { ...usual, ...times, ...PROGRESS, ...facts, ...progress };
    const body = { handle: this.engine.bodies.allocate(text.length), bytes: text.length };
    this.engine.bodies.write(body.handle, 0, asciiBytes(text), 0, text.length);
    return this.engine.schedules.set(100 + ++this.#lastId, true, all, all, body);
  }

  planned(name: string, facts: Partial<ScheduleFacts> = {}, progress = {}, text = ""): Schedule {
    assert.ok(this.plan(name, facts, progress, text));
    return this.at(name);
  }

  at(name: string): Schedule {
    return this.engine.schedules.table.get(name)!;
  }

  says(): string {
    return this.records.splice(0).join(", ");
  }

  body(id: number): string {
    const slot = this.engine.find(id);
    const page = this.engine.jobs.pageOf(slot);
    const bytes = new Uint8Array(page.bodyBytes[rowOf(slot)]!);
    this.engine.bodies.read(page.body[rowOf(slot)]!, 0, bytes, 0, bytes.length);
    return latin1(bytes, 0, bytes.length);
  }
}

describe("a schedule", () => {
  it("puts its job with its body, times, attributes and a key", () => {
    const bench = new Bench();
    const attributes = new AttributeWriter(Memory.ofSize(100));
    attributes.text(Attribute.Group, asciiBytes("g"), 0, 1);
    attributes.uint16(Attribute.Weight, 7);
    const written = attributes.bytes.slice(0, attributes.length);
    bench.plan("s", { delaySeconds: 4, ttlMs: 5000, attributes: written }, {}, "body");
    assert.equal(bench.says(), "set 101 anew");
    const said = bench.does((engine) => engine.schedules.runOne(3, 10));
    assert.equal(said, "true: put 2, stored 4");
    assert.equal(bench.job(2), "u delayed pri 3 delay 4 ttr 5 at 4003 expires 5003 bytes 4");
    assert.equal(bench.body(2), "body");
    const { fixed, hasKey } = bench.logged(2);
    const text = latin1(fixed.bytes, 0, fixed.length);
    assert.ok(hasKey && text.includes("s@1970-01-01T00:00:00.010Z"), text);
    assert.ok(text.includes("schedule:s@1970"), text);
    assert.equal(bench.engine.findTube("u")!.groups!.size, 1);
    assert.equal(bench.says(), "s next at 20");
  });

  it("puts a job at once without a key, and goes on as before", () => {
    const bench = new Bench();
    const schedule = bench.planned("s");
    bench.says();
    assert.equal(bench.engine.schedules.run(schedule, 5), 2);
    assert.equal(bench.engine.schedules.run(schedule, 5), 3);
    assert.equal(bench.says(), "s next at 10, s next at 10");
    assert.deepEqual([schedule.runs, schedule.fired, bench.engine.schedules.counts.runs], [2, 0, 2]);
    const { fixed, hasKey } = bench.logged(2);
    assert.ok(!hasKey && latin1(fixed.bytes, 0, fixed.length).includes("schedule:s@now"));
  });

  it("says why no job can be put, and keeps no copy of the body", () => {
    const bench = new Bench();
    const schedule = bench.planned("s", {}, {}, "body");
    const usedBytes = bench.engine.bodies.usedBytes;
    const refused = (): unknown => bench.engine.schedules.run(schedule, 5);
    bench.log.begins = false;
    assert.deepEqual(refused(), { refusal: Refusal.LogFull });
    bench.log.begins = true;
    bench.set("u", { maxJobs: 0 });
    assert.deepEqual(refused(), { refusal: Refusal.TubeFull });
    bench.set("u", {});
    const { limit } = bench.engine.bodies;
    bench.engine.bodies.limit = { allows: false };
    assert.deepEqual(refused(), { refusal: Refusal.OutOfMemory });
    bench.engine.bodies.limit = limit;
    bench.engine.schedules.isDraining = () => true;
    assert.deepEqual(refused(), { refusal: Refusal.Draining });
    assert.equal(bench.engine.bodies.usedBytes, usedBytes);
    assert.deepEqual([schedule.runs, schedule.refusals], [0, 0]);
  });

  it("is set anew in the place of the older one, unless the log has no room", () => {
    const bench = new Bench();
    const { table } = bench.engine.schedules;
    bench.plan("s", {}, {}, "body");
    bench.at("s").lastRefusal = Refusal.TubeFull;
    bench.logHasRoom = false;
    assert.equal(bench.plan("s", { pri: 9 }), false);
    assert.equal(bench.at("s").facts.pri, 3);
    bench.logHasRoom = true;
    const counts = { fired: 5, runs: 6, missedTicks: 7, duplicates: 8, refusals: 9 };
    const progress = { version: 2, nextMs: 30, lastMs: 4, ...counts };
    assert.equal(bench.plan("s", { pri: 9 }, progress), true);
    const after = bench.at("s");
    assert.deepEqual(
      { ...PROGRESS, ...progress },
      Object.fromEntries(Object.keys(PROGRESS).map((key) => [key, after[key as "fired"]])),
    );
    assert.deepEqual([after.facts.pri, after.lastRefusal], [9, Refusal.TubeFull]);
    assert.deepEqual([table.size, table.nextAtMs], [1, 30]);
    assert.equal(bench.engine.bodies.usedBytes, 0, "the body of the older one");
  });

  it("is deleted with its body and its timer", () => {
    const bench = new Bench();
    const { schedules } = bench.engine;
    bench.plan("s", {}, { paused: true }, "body");
    assert.deepEqual([schedules.table.paused.size, schedules.table.textBytes], [1, "suUTC".length]);
    bench.says();
    schedules.delete(bench.at("s"));
    assert.equal(bench.says(), "gone 101");
    const { size, textBytes, paused, nextAtMs } = schedules.table;
    assert.deepEqual(
      [size, textBytes, paused.size, nextAtMs, bench.engine.bodies.usedBytes],
      [0, 0, 0, NEVER, 0],
    );
    assert.equal(schedules.runOne(99, 99), false);
  });

  it("rests while it is paused, and resumes with the next tick", () => {
    const bench = new Bench();
    const { schedules } = bench.engine;
    const schedule = bench.planned("s");
    bench.says();
    schedules.resume(schedule, 25);
    assert.equal(bench.says(), "", "it doesn't rest");
    schedules.pause(schedule);
    schedules.pause(schedule);
    assert.deepEqual([bench.says(), schedules.table.paused.size], ["s next at 10", 1]);
    schedules.resume(schedule, 10);
    assert.equal(bench.says(), "s next at 20");
    assert.deepEqual([schedules.table.paused.size, schedules.table.nextAtMs], [0, 20]);
    schedules.pause(schedule);
    schedules.resume(schedule, 15);
    assert.equal(bench.says(), "s next at 20, s next at 20", "that is still to come");
  });

  it("puts nothing while another shard sets it", () => {
    const bench = new Bench();
    const { schedules } = bench.engine;
    const schedule = bench.planned("s");
    schedule.freezers.set(1, 5);
    schedules.table.setTimer(schedule);
    assert.equal(schedules.table.nextAtMs, NEVER);
    schedule.nextMs = 1e9;
    schedules.correct(schedule, 0);
    assert.equal(schedule.nextMs, 1e9, "that shard knows its next tick");
    schedule.freezers.clear();
    schedules.table.setTimer(schedule, 2e9);
    assert.equal(schedules.table.nextAtMs, 2e9);
  });

  it("goes on behind a tick whose job the log has, and says so once", () => {
    const before = new Bench();
    before.plan("s", {}, {}, "body");
    before.engine.schedules.runOne(0, 10);
    const log = before.logged(2);
    const bench = new Bench();
    bench.plan("s");
    bench.plan("other");
    bench.plan("never", {}, { nextMs: NEVER });
    const job = { id: 900, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
    bench.does((engine) => engine.put(bench.session(0), job, engine.bodies.allocate(0), 0, "u", log));
    bench.says();
    bench.engine.schedules.endRestore();
    const { nextMs, lastMs, fired } = bench.at("s");
    assert.deepEqual([nextMs, lastMs, fired, bench.at("other").nextMs], [20, 10, 1, 10]);
    bench.engine.schedules.logRestored();
    assert.equal(bench.says(), "s next at 20");
    bench.engine.schedules.logRestored();
    assert.equal(bench.says(), "");
  });
});

describe("schedules are late", () => {
  it("by the earliest tick that is due, refused or made up, but not in a pause", () => {
    const bench = new Bench();
    const { schedules } = bench.engine;
    const { table } = schedules;
    assert.equal(table.lateMs(5), 0);
    bench.plan("s", { missed: Missed.All });
    assert.deepEqual([table.lateMs(9), table.lateMs(10), table.lateMs(35)], [0, 0, 25]);
    schedules.runOne(35, 35);
    assert.deepEqual([bench.at("s").nextMs, table.lateMs(35), table.nextAtMs], [20, 15, 0], "it is made up");
    schedules.pause(bench.at("s"));
    assert.deepEqual([table.lateMs(35), table.behind.size], [0, 0]);
    bench.plan("r");
    schedules.isDraining = () => true;
    while (schedules.runOne(35, 35));
    assert.equal(bench.at("r").refusals, 1);
    assert.equal(table.lateMs(45), 15, "since the tick that was refused");
    schedules.pause(bench.at("r"));
    assert.equal(table.lateMs(45), 0);
  });
});

it("timings are the same if expression, zone and interval are", () => {
  const timing = { cron: "a", zone: "b", everyMs: 1 };
  assert.ok(isSameTiming(timing, { ...timing }));
  for (const other of [{ cron: "x" }, { zone: "x" }, { everyMs: 2 }])
    assert.ok(!isSameTiming(timing, { ...timing, ...other }), JSON.stringify(other));
});
