// Tests of ticks: what is put when several are due, and what happens to a refused one.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import {
  BACK_MS_MAX,
  LATE_JOBS_MAX,
  LATE_MS_MAX,
  PASSED_TICKS_MAX,
  Refusal,
  SCHEDULES_MAX,
  type Schedule,
  type ScheduleFacts,
  type Schedules,
} from "../../../src/engine/schedules.ts";
import { Missed } from "../../../src/protocol/schedule-options.ts";
import { ScheduleTurns, type ScheduleTurnsOptions } from "../../../src/shard/schedules/shard-schedules.ts";
import { EngineBench } from "./engine-bench.ts";

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
    const times = { pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, ttlMs: 0 };
    const facts: ScheduleFacts = { name, tube: "t", timing, missed, ...times, attributes: new Uint8Array(0) };
    const nextMs = schedules.firstTick(timing, 0, 0);
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
    const progress = { version: 1, anchorMs: 0, nextMs, paused: false, ...counts };
    assert.ok(schedules.set(++this.#lastId, true, facts, progress, { handle: EMPTY_BODY, bytes: 0 }));
    return schedules.table.get(name)!;
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
