// Tests of ticks: what is put when several are due, and what happens to a refused one.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes, latin1, Memory } from "../../../src/base/bytes.ts";
import { Outcome } from "../../../src/engine/jobs/ends.ts";
import { rowOf } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../src/engine/jobs/new-job.ts";
import {
  BACK_MS_MAX,
  isSameTiming,
  LATE_JOBS_MAX,
  LATE_MS_MAX,
  PASSED_TICKS_MAX,
  Refusal,
  SCHEDULES_MAX,
  type Schedule,
  type ScheduleFacts,
  type ScheduleProgress,
  type Schedules,
} from "../../../src/engine/schedules.ts";
import { Attribute, AttributeWriter } from "../../../src/protocol/job-attribute.ts";
import { Missed, Overlap } from "../../../src/protocol/schedule-options.ts";
import { ScheduleTurns, type ScheduleTurnsOptions } from "../../../src/shard/schedules/shard-schedules.ts";
import { addSchedule } from "../../support/in-process/add-schedule.ts";
import { EngineBench } from "./engine-bench.ts";
import { TracedEngine } from "./traced-engine.ts";

const SECOND_MS = 1000;

class ScheduleBench extends EngineBench {
  #lastId = 0;

  constructor() {
    super();
    this.engine.schedules.takeJobId = () => ++this.#lastId;
    // A tick each ten seconds, for expressions.
    this.engine.schedules.next = (_, afterMs) => Math.floor(afterMs / 10_000 + 1) * 10_000;
  }

  set(name: string, missed: number, everyMs: number): Schedule {
    const { schedules } = this.engine;
    const timing = { cron: everyMs === 0 ? "x" : "", zone: "UTC", everyMs };
    const nextMs = schedules.firstTick(timing, 0, 0);
    return addSchedule(schedules, ++this.#lastId, name, { timing, missed }, { nextMs });
  }

  /** Works off all that is due at this time; returns the number of ticks that were looked at. */
  runAt(wallMs: number): number {
    let looks = 0;
    while (this.engine.schedules.runOne(wallMs, wallMs)) looks++;
    return looks;
  }

  get jobs(): number {
    return this.engine.totalJobs;
  }
}

function turnsOf(schedules: Schedules, options: Partial<ScheduleTurnsOptions> = {}): ScheduleTurns {
  const clocks = { wallOffsetMs: () => 0, clock: () => 0 };
  return new ScheduleTurns({ schedules, ...clocks, mayLog: () => true, ...options });
}

it("a schedule that is set again keeps the misses and the refusal that need attention", () => {
  const bench = new ScheduleBench();
  const { table } = bench.engine.schedules;
  bench.set("a", Missed.None, 3_600_000).lastRefusal = Refusal.TubeFull;
  bench.runAt(3_600_000 + LATE_MS_MAX + 1);
  const again = bench.set("a", Missed.None, 3_600_000);
  assert.deepEqual([again.missedInARow, again.lastRefusal], [1, Refusal.TubeFull]);
  assert.deepEqual([...table.missing], [again]);
});

it("a schedule needs no attention any more once it has put a job, by a tick or by hand", () => {
  for (const how of ["tick", "hand"] as const) {
    const bench = new ScheduleBench();
    const { schedules } = bench.engine;
    const { table } = schedules;
    const hourly = bench.set("a", Missed.None, 3_600_000);
    bench.runAt(3_600_000 + LATE_MS_MAX + 1);
    schedules.isDraining = () => true;
    bench.runAt(7_200_000);
    assert.deepEqual([table.missing.size, table.refused.size, hourly.missedInARow], [1, 1, 1]);
    schedules.isDraining = () => false;
    if (how === "hand") assert.ok((schedules.run(hourly, 7_200_000) as number) > 0);
    else bench.runAt(7_200_000 + 1000);
    assert.deepEqual([table.missing.size, hourly.missedInARow], [0, 0]);
    assert.equal(table.refused.size, how === "hand" ? 1 : 0, "the tick itself has its job yet to get");
  }
});

it("a refused tick is tried when the next one is due, if that comes before the second is over", () => {
  for (const [everyMs, againMs] of [
    [400, 800],
    [1000, 2000],
    [5000, 6000],
  ] as const) {
    const bench = new ScheduleBench();
    const { schedules } = bench.engine;
    const often = bench.set("often", Missed.All, everyMs);
    schedules.isDraining = () => true;
    bench.runAt(everyMs);
    assert.deepEqual([often.refusals, often.timer.atMs], [1, againMs], `each ${everyMs} ms`);
  }
});

it("there is room for one schedule below the bound, and for none at it", () => {
  const { table } = new ScheduleBench().engine.schedules;
  table.size = SCHEDULES_MAX - 1;
  assert.ok(!table.isFull);
  table.size = SCHEDULES_MAX;
  assert.ok(table.isFull);
});

describe("ticks that are due together", () => {
  for (const everyMs of [0, 10_000])
    it(`put what the schedule says, ${everyMs === 0 ? "with an expression" : "at intervals"}`, () => {
      const bench = new ScheduleBench();
      const once = bench.set("once", Missed.Once, everyMs);
      const all = bench.set("all", Missed.All, everyMs);
      const none = bench.set("none", Missed.None, everyMs);
      bench.runAt(35 * SECOND_MS);
      assert.deepEqual([once.fired, all.fired, none.fired], [1, 3, 1]);
      assert.deepEqual([once.missedTicks, all.missedTicks, none.missedTicks], [2, 0, 2]);
      assert.deepEqual([once.lastMs, none.lastMs], [30 * SECOND_MS, 30 * SECOND_MS]);
      assert.deepEqual([once.nextMs, all.nextMs, none.nextMs], Array(3).fill(40 * SECOND_MS));
    });

  it("put none that is too late, if the schedule says so", () => {
    const bench = new ScheduleBench();
    const hourly = bench.set("none", Missed.None, 3_600_000);
    bench.runAt(3_600_000 + LATE_MS_MAX + 1);
    assert.deepEqual([hourly.fired, hourly.missedTicks, hourly.nextMs], [0, 1, 7_200_000]);
    bench.runAt(7_200_000 + LATE_MS_MAX);
    assert.deepEqual([hourly.fired, hourly.missedTicks], [1, 1]);
  });

  it("put a bounded number of jobs with missed=all", () => {
    const bench = new ScheduleBench();
    const all = bench.set("all", Missed.All, SECOND_MS);
    const due = 3 * LATE_JOBS_MAX;
    bench.runAt(due * SECOND_MS);
    assert.deepEqual([all.fired, all.missedTicks], [LATE_JOBS_MAX, due - LATE_JOBS_MAX]);
    assert.equal(all.lastMs, due * SECOND_MS);
  });

  it("are counted anew after each one that is punctual", () => {
    const bench = new ScheduleBench();
    const all = bench.set("all", Missed.All, SECOND_MS);
    let wallMs = 0;
    for (let outage = 1; outage <= 4; outage++) {
      wallMs += 0.6 * LATE_JOBS_MAX * SECOND_MS;
      bench.runAt(wallMs);
      wallMs += SECOND_MS;
      bench.runAt(wallMs);
    }
    assert.deepEqual([all.fired, all.missedTicks], [wallMs / SECOND_MS, 0]);
  });

  it("are not counted without end", () => {
    const bench = new ScheduleBench();
    const once = bench.set("once", Missed.Once, 0);
    const wallMs = 10 * PASSED_TICKS_MAX * 10 * SECOND_MS;
    const looks = bench.runAt(wallMs + 5 * SECOND_MS);
    assert.equal(looks, PASSED_TICKS_MAX + 1);
    assert.deepEqual([once.fired, once.missedTicks], [1, PASSED_TICKS_MAX]);
    assert.deepEqual([once.lastMs, once.nextMs], [wallMs, wallMs + 10 * SECOND_MS], "the latest has a job");
    const none = bench.set("none", Missed.None, 0);
    assert.equal(bench.runAt(wallMs + 5 * SECOND_MS), PASSED_TICKS_MAX + 1);
    assert.deepEqual([none.fired, none.lastMs], [1, wallMs], "it is 5 seconds late");
  });
});

describe("a paused schedule", () => {
  for (const everyMs of [0, 10_000])
    it(`shows a tick to come and logs nothing, ${everyMs === 0 ? "with an expression" : "at intervals"}`, () => {
      const bench = new ScheduleBench();
      const { schedules } = bench.engine;
      const once = bench.set("once", Missed.Once, everyMs);
      schedules.pause(once);
      let records = 0;
      schedules.sink = { ...schedules.sink, ticked: () => records++ };
      assert.equal(bench.runAt(35 * SECOND_MS), 1, "however many ticks have passed");
      assert.equal(once.nextMs, 40 * SECOND_MS);
      bench.runAt(40 * SECOND_MS);
      assert.equal(once.nextMs, 50 * SECOND_MS);
      assert.deepEqual([once.fired, once.missedTicks, records, bench.jobs], [0, 0, 0, 0]);
      schedules.resume(once, 41 * SECOND_MS);
      bench.runAt(50 * SECOND_MS);
      assert.deepEqual([once.fired, once.missedTicks, records], [1, 0, 2]);
    });
});

describe("a refused tick", () => {
  it("is tried again each second until the next one is due", () => {
    const bench = new ScheduleBench();
    const once = bench.set("once", Missed.Once, 10 * SECOND_MS);
    bench.engine.schedules.isDraining = () => true;
    bench.runAt(10 * SECOND_MS);
    bench.runAt(10 * SECOND_MS + 999);
    assert.deepEqual([once.refusals, once.lastRefusal, bench.jobs], [1, Refusal.Draining, 0]);
    bench.runAt(11 * SECOND_MS);
    assert.equal(once.refusals, 2);
    bench.engine.schedules.isDraining = () => false;
    bench.runAt(12 * SECOND_MS);
    assert.deepEqual([once.fired, once.lastMs, once.missedTicks], [1, 10 * SECOND_MS, 0]);
    bench.engine.schedules.isDraining = () => true;
    bench.runAt(20 * SECOND_MS);
    bench.runAt(30 * SECOND_MS);
    assert.deepEqual([once.nextMs, once.missedTicks], [30 * SECOND_MS, 1]);
  });

  it("passes if another job has its key", () => {
    const bench = new ScheduleBench();
    const once = bench.set("a", Missed.Once, 10 * SECOND_MS);
    bench.runAt(10 * SECOND_MS);
    once.nextMs = 10 * SECOND_MS;
    bench.engine.schedules.table.setTimer(once);
    bench.runAt(10 * SECOND_MS);
    assert.deepEqual([once.fired, once.duplicates, once.nextMs, bench.jobs], [1, 1, 20 * SECOND_MS, 1]);
  });
});

describe("10,000 schedules", () => {
  it("for one moment are worked off in slices", () => {
    const bench = new ScheduleBench();
    const { schedules } = bench.engine;
    for (let n = 0; n < 10_000; n++) bench.set(`s${n}`, Missed.Once, 60 * SECOND_MS);
    const turns = turnsOf(schedules);
    while (turns.dueAtMs <= 0) turns.step(0);
    let most = 0;
    let steps = 0;
    for (; turns.dueAtMs <= 60 * SECOND_MS; steps++) {
      const before = bench.jobs;
      turns.step(60 * SECOND_MS);
      most = Math.max(most, bench.jobs - before);
    }
    assert.deepEqual([bench.jobs, most, steps], [10_000, 50, 200]);
    // Nothing is due: one look a second, at the first of them.
    assert.equal(turns.dueAtMs, 61 * SECOND_MS);
    turns.step(61 * SECOND_MS);
    assert.equal(turns.dueAtMs, 62 * SECOND_MS);
  });
});

describe("a wall clock that is set back", () => {
  const YEAR_MS = 365 * 86_400_000;

  for (const everyMs of [0, 10_000])
    it(`lets ticks go on, ${everyMs === 0 ? "with an expression" : "at intervals"}`, () => {
      const bench = new ScheduleBench();
      const once = bench.set("once", Missed.Once, everyMs);
      const none = bench.set("none", Missed.None, everyMs);
      let offsetMs = 0;
      const turns = turnsOf(bench.engine.schedules, { wallOffsetMs: () => offsetMs });
      const run = (nowMs: number): void => {
        for (let left = 50_000; left > 0 && turns.dueAtMs <= nowMs; left--) turns.step(nowMs);
      };
      run(10 * SECOND_MS);
      offsetMs = YEAR_MS;
      run(11 * SECOND_MS);
      assert.ok(once.nextMs > YEAR_MS && none.nextMs > YEAR_MS, "they are as far as the clock");
      offsetMs = 0;
      run(12 * SECOND_MS);
      assert.deepEqual([once.nextMs, none.nextMs], [20 * SECOND_MS, 20 * SECOND_MS]);
      const before = bench.jobs;
      run(20 * SECOND_MS);
      assert.equal(bench.jobs, before + 2);
    });

  it("brings back the ticks of a schedule that it had ended, except one that was put", () => {
    for (const [endMs, missed, ahead] of [
      // As an expression for one year, and as one for a single time.
      [YEAR_MS, Missed.None, 20 * SECOND_MS],
      [20 * SECOND_MS, Missed.None, 20 * SECOND_MS],
      [20 * SECOND_MS, Missed.Once, Number.POSITIVE_INFINITY],
    ] as const) {
      const bench = new ScheduleBench();
      const { schedules } = bench.engine;
      const tenSeconds = schedules.next;
      schedules.next = (timing, afterMs) => (afterMs < endMs ? tenSeconds(timing, afterMs) : Infinity);
      const once = bench.set("once", missed, 0);
      let offsetMs = 0;
      const turns = turnsOf(schedules, { wallOffsetMs: () => offsetMs });
      const run = (nowMs: number): void => {
        for (let left = 50_000; left > 0 && turns.dueAtMs <= nowMs; left--) turns.step(nowMs);
      };
      run(11 * SECOND_MS);
      offsetMs = 2 * YEAR_MS;
      run(12 * SECOND_MS);
      assert.equal(once.nextMs, Number.POSITIVE_INFINITY);
      offsetMs = 0;
      run(13 * SECOND_MS);
      assert.equal(once.nextMs, ahead);
    }
  });

  it("is found once, for more schedules than a turn looks at; then the shard rests", () => {
    const bench = new ScheduleBench();
    const all = Array.from({ length: 300 }, (_, n) => bench.set(`s${n}`, Missed.None, 10_000));
    let offsetMs = YEAR_MS;
    const turns = turnsOf(bench.engine.schedules, { wallOffsetMs: () => offsetMs });
    /** Lets turns follow each other at one moment until nothing is due. */
    const run = (nowMs: number): void => {
      for (let left = 100; turns.dueAtMs <= nowMs; left--) {
        assert.ok(left > 0, "the shard rests");
        turns.step(nowMs);
      }
    };
    run(11 * SECOND_MS);
    offsetMs = 0;
    run(12 * SECOND_MS);
    for (const { name, nextMs } of all) assert.equal(nextMs, 20 * SECOND_MS, name);
  });

  it("is found at a start, too", () => {
    const bench = new ScheduleBench();
    const once = bench.set("once", Missed.Once, 10_000);
    once.anchorMs = YEAR_MS;
    once.nextMs = YEAR_MS + 10_000;
    bench.engine.schedules.table.setTimer(once);
    const turns = turnsOf(bench.engine.schedules);
    turns.step(5 * SECOND_MS);
    assert.deepEqual([once.anchorMs, once.nextMs], [5 * SECOND_MS, 15 * SECOND_MS]);
  });

  it("is forgotten once a paused schedule has passed the time before", () => {
    for (const resumesAtMs of [1500 * SECOND_MS, 2500 * SECOND_MS]) {
      const bench = new ScheduleBench();
      const { schedules } = bench.engine;
      const once = bench.set("once", Missed.Once, 0);
      let offsetMs = 2000 * SECOND_MS;
      const turns = turnsOf(schedules, { wallOffsetMs: () => offsetMs });
      const run = (nowMs: number): void => {
        for (let left = 1000; left > 0 && turns.dueAtMs <= nowMs; left--) turns.step(nowMs);
      };
      run(SECOND_MS);
      offsetMs = 0;
      run(2 * SECOND_MS);
      assert.deepEqual([once.nextMs, once.heldMs], [10 * SECOND_MS, 2010 * SECOND_MS]);
      schedules.pause(once);
      if (resumesAtMs > once.heldMs) run(2200 * SECOND_MS);
      schedules.resume(once, resumesAtMs);
      assert.equal(once.heldMs, resumesAtMs > 2010 * SECOND_MS ? 0 : 2010 * SECOND_MS);
      run(resumesAtMs);
      const { jobs } = bench;
      // The machine is suspended for two minutes.
      offsetMs = 2 * BACK_MS_MAX;
      run(resumesAtMs + SECOND_MS);
      assert.equal(bench.jobs, jobs + 1);
      assert.ok(once.lastMs > resumesAtMs, "no tick of the pause comes");
    }
  });

  it("repeats no tick if that was a minute or an interval", () => {
    for (const everyMs of [SECOND_MS, 3_600_000]) {
      const bench = new ScheduleBench();
      const once = bench.set("once", Missed.Once, everyMs);
      const backMs = Math.max(everyMs, BACK_MS_MAX) - 1;
      let offsetMs = 0;
      const turns = turnsOf(bench.engine.schedules, { wallOffsetMs: () => offsetMs });
      const ranMs = 100 * everyMs;
      while (turns.dueAtMs <= ranMs) turns.step(ranMs);
      const { nextMs } = once;
      offsetMs = -backMs;
      for (let nowMs = ranMs; nowMs < ranMs + 5 * LATE_MS_MAX; nowMs += 100) {
        if (turns.dueAtMs <= nowMs) turns.step(nowMs);
        assert.ok(once.nextMs >= nextMs, "no tick comes again");
      }
    }
  });
});

describe("a tick", () => {
  it("waits until the log can take its records", () => {
    const bench = new ScheduleBench();
    const once = bench.set("once", Missed.Once, 10 * SECOND_MS);
    let isOpen = false;
    const turns = turnsOf(bench.engine.schedules, { mayLog: () => isOpen });
    turns.step(10 * SECOND_MS);
    assert.deepEqual([once.fired, once.nextMs, turns.dueAtMs], [0, 10 * SECOND_MS, Number.POSITIVE_INFINITY]);
    isOpen = true;
    assert.ok(turns.dueAtMs <= 11 * SECOND_MS);
    turns.step(11 * SECOND_MS);
    assert.deepEqual([once.fired, once.lastMs], [1, 10 * SECOND_MS]);
  });

  it("that is punctual comes between those that are made up", () => {
    const bench = new ScheduleBench();
    const { schedules } = bench.engine;
    const late = ["a", "b", "c"].map((name) => bench.set(name, Missed.All, SECOND_MS));
    const daily = bench.set("daily", Missed.Once, 1000 * SECOND_MS);
    const turns = turnsOf(schedules);
    for (let steps = 0; steps < 10; steps++) turns.step(999 * SECOND_MS);
    const made = late.map(({ fired }) => fired);
    assert.ok(Math.max(...made) - Math.min(...made) <= 3 && made[0]! > 100, `${made}`);
    turns.step(1000 * SECOND_MS);
    assert.equal(daily.fired, 1);
    for (let steps = 0; turns.dueAtMs <= 1000 * SECOND_MS; steps++) {
      assert.ok(steps < 100, "all are worked off");
      turns.step(1000 * SECOND_MS);
    }
    assert.deepEqual(
      late.map(({ fired, missedTicks }) => fired + missedTicks),
      [1000, 1000, 1000],
    );
  });
});

// Tests of what commands do to schedules: what is set, put, logged and counted.

const PROGRESS: ScheduleProgress = {
  ...{ version: 1, anchorMs: 0, nextMs: 10, paused: false, lastMs: 0, heldMs: 0, lateJobs: 0 },
  ...{ fired: 0, runs: 0, missedTicks: 0, duplicates: 0, refusals: 0, skipped: 0 },
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
    const usual = { name, tube: "u", timing, missed: Missed.Once, overlap: 0, attributes: new Uint8Array(0) };
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
    const counts = { fired: 5, runs: 6, missedTicks: 7, duplicates: 8, refusals: 9, skipped: 10 };
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

describe("a schedule with overlap=skip", () => {
  /** Works off its tick; returns what was fired, what was skipped, and the next tick. */
  const tick = (bench: Bench, wallMs: number): readonly number[] => {
    while (bench.engine.schedules.runOne(wallMs, wallMs));
    const { fired, skipped, nextMs } = bench.at("s");
    return [fired, skipped, nextMs];
  };
  const alone = { overlap: Overlap.Skip };

  it("puts no job while one exists, in whichever tube and state", () => {
    const bench = new Bench();
    const { engine } = bench;
    bench.plan("s", alone);
    assert.deepEqual(tick(bench, 10), [1, 0, 20]);
    bench.says();
    assert.deepEqual(tick(bench, 20), [1, 1, 30], "it is ready");
    assert.equal(bench.says(), "s next at 30", "the log has that");
    engine.changes.move(engine.find(2), "elsewhere", false, 25);
    assert.deepEqual(tick(bench, 30), [1, 2, 40], "it is in another tube");
    const worker = bench.session(0);
    assert.ok(engine.reserveJob(worker, 2, 31) === Outcome.Done);
    assert.deepEqual(tick(bench, 40), [1, 3, 50], "a worker has it");
    engine.bury(worker, 2, 5, 41);
    assert.deepEqual(tick(bench, 50), [1, 4, 60], "it is buried");
    engine.delete(worker, 2, 55);
    assert.equal(engine.scheduled.size, 0);
    assert.deepEqual(tick(bench, 60), [2, 4, 70]);
    assert.equal(engine.schedules.counts.skipped, 4);
  });

  it("counts a job of run, and none of another schedule or of a client", () => {
    const bench = new Bench();
    const { engine } = bench;
    bench.plan("s", alone);
    bench.plan("s@", { ...alone, tube: "other" });
    assert.equal(engine.schedules.run(bench.at("s@"), 1), 3);
    const attributes = new JobAttributes();
    for (const pair of ["schedule:s", "x:schedule:s@now", "schedule=s@now"]) {
      const bytes = asciiBytes(pair);
      attributes.clear().fixed.text(Attribute.Meta, bytes, 0, bytes.length);
      engine.scheduled.add(attributes.fixed.bytes, attributes.fixed.length);
    }
    assert.deepEqual(
      [engine.scheduled.size, engine.scheduled.has("s"), engine.scheduled.has("s@")],
      [1, false, true],
    );
    assert.deepEqual(tick(bench, 10), [1, 0, 20]);
  });

  it("waits for the answer of other shards, unless it has a job here", () => {
    const bench = new Bench();
    const { schedules } = bench.engine;
    const asked: string[] = [];
    schedules.askOthers = ({ name }) => void asked.push(name);
    bench.plan("s", alone);
    assert.deepEqual(tick(bench, 10), [0, 0, 10]);
    assert.deepEqual([asked, schedules.table.nextAtMs], [["s"], NEVER]);
    schedules.answered(bench.at("s"), true, 11, 11);
    assert.deepEqual(tick(bench, 11), [0, 1, 20], "another shard has one");
    assert.deepEqual(tick(bench, 20), [0, 1, 20]);
    schedules.answered(bench.at("s"), false, 21, 21);
    assert.deepEqual(tick(bench, 21), [1, 1, 30], "none has");
    assert.deepEqual(tick(bench, 30), [1, 2, 40], "it is here");
    assert.deepEqual(asked, ["s", "s"]);
  });

  it("leaves a tick out that an answer came too late for, as without a question", () => {
    for (const [missed, fired] of [
      [Missed.None, 0],
      [Missed.Once, 0],
      [Missed.All, 1],
    ] as const) {
      const bench = new Bench();
      const { schedules } = bench.engine;
      schedules.askOthers = () => {};
      bench.plan("s", { ...alone, missed });
      tick(bench, 10);
      const lateMs = 10 + 2 * LATE_MS_MAX;
      schedules.answered(bench.at("s"), false, lateMs, lateMs);
      assert.equal(bench.at("s").fired, fired, `missed=${missed}`);
    }
  });

  it("asks again if it was paused, frozen or set back meanwhile, and forgets it if it is gone", () => {
    const bench = new Bench();
    const { schedules } = bench.engine;
    const { table } = schedules;
    let asked = 0;
    schedules.askOthers = () => void asked++;
    const schedule = bench.planned("s", alone);
    tick(bench, 10);
    schedules.pause(schedule);
    assert.equal(table.nextAtMs, NEVER);
    schedules.answered(schedule, false, 11, 11);
    assert.deepEqual(tick(bench, 11), [0, 0, 20], "ticks in a pause are skipped");
    schedules.resume(schedule, 12);
    tick(bench, 20);
    schedule.freezers.set(1, 7);
    schedules.answered(schedule, false, 21, 21);
    assert.deepEqual([tick(bench, 21), table.nextAtMs], [[0, 0, 20], NEVER]);
    schedule.freezers.clear();
    table.setTimer(schedule);
    tick(bench, 22);
    schedules.answered(schedule, false, 23, 19);
    assert.deepEqual([schedule.fired, table.nextAtMs], [0, 20], "the clock has gone back");
    tick(bench, 20);
    assert.equal(asked, 4);
    schedules.delete(schedule);
    schedules.answered(schedule, false, 24, 24);
    assert.deepEqual([schedule.fired, table.size], [0, 0]);
  });

  it("is late while other shards hold it up", () => {
    const bench = new Bench();
    const { schedules } = bench.engine;
    const { table } = schedules;
    schedules.askOthers = () => {};
    const schedule = bench.planned("s", alone);
    schedule.freezers.set(1, 7);
    table.setTimer(schedule);
    assert.deepEqual([table.lateMs(9), table.lateMs(30)], [0, 20], "frozen");
    schedule.freezers.clear();
    table.setTimer(schedule);
    tick(bench, 10);
    assert.equal(table.lateMs(40), 30, "asked about");
    schedules.pause(schedule);
    assert.equal(table.lateMs(40), 0);
    schedules.resume(schedule, 9);
    schedules.answered(schedule, false, 11, 11);
    assert.deepEqual([schedule.fired, table.lateMs(11)], [1, 0]);
    schedule.freezers.set(1, 8);
    table.setTimer(schedule);
    schedules.delete(schedule);
    assert.equal(table.lateMs(100), 0);
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
