// Tests of the turns of schedules: when one ends, when the shard looks next, and how far a clock
// has to go back to be noticed.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  BACK_MS_MAX,
  NO_SINK,
  SCHEDULES_MAX,
  type Schedule,
  type Schedules,
} from "../../../../src/engine/schedules.ts";
import { Missed, SCHEDULE_BODY_BYTES_MAX } from "../../../../src/protocol/schedule-options.ts";
import { NextRuns } from "../../../../src/shard/schedules/schedule-listing.ts";
import { ScheduleTurns, type ScheduleTurnsOptions } from "../../../../src/shard/schedules/shard-schedules.ts";
import { addSchedule, everyMs } from "../../../support/in-process/add-schedule.ts";
import { checkArenaAtRest } from "../../../support/in-process/engine-invariants.ts";
import { snapshotOf } from "../../../support/in-process/engine-snapshot.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { tubeOn } from "../../../support/tube-on.ts";
import { EngineBench } from "../../engine/engine-bench.ts";

const EVERY_MS = 10_000;
const TURN_TICKS_MAX = 50;
const TURN_MS = 0.5;

class TurnsBench extends EngineBench {
  readonly turns: ScheduleTurns;
  #lastId = 0;

  constructor(schedules: number, options: Partial<ScheduleTurnsOptions> = {}) {
    super();
    this.engine.schedules.takeJobId = () => ++this.#lastId;
    for (let number = 1; number <= schedules; number++) this.set(`s${number}`);
    const clocks = { wallOffsetMs: () => 0, clock: () => 0, mayLog: () => true };
    this.turns = new ScheduleTurns({ schedules: this.engine.schedules, ...clocks, ...options });
  }

  set(name: string, ms = EVERY_MS): Schedule {
    const facts = { timing: everyMs(ms), missed: Missed.None };
    return addSchedule(this.engine.schedules, ++this.#lastId, name, facts, { nextMs: ms });
  }

  /** Lets turns follow each other until nothing is due. */
  settle(nowMs: number): void {
    for (let left = 1000; this.turns.dueAtMs <= nowMs; left--) {
      assert.ok(left > 0, "the shard rests");
      this.turns.step(nowMs);
    }
  }
}

describe("a turn ends", () => {
  for (const [tickMs, ticks] of [
    [0, TURN_TICKS_MAX],
    [TURN_MS / 50, TURN_TICKS_MAX],
    [TURN_MS / 4, 5],
    [TURN_MS / 2, 3],
    [TURN_MS, 2],
    [TURN_MS + 0.01, 1],
  ] as const)
    it(`after ${ticks} ticks if each takes ${tickMs} ms`, () => {
      let readings = 0;
      const bench = new TurnsBench(2 * TURN_TICKS_MAX, { clock: () => readings++ * tickMs });
      bench.settle(0);
      readings = 0;
      bench.turns.step(EVERY_MS);
      assert.equal(bench.engine.totalJobs, ticks);
      assert.equal(bench.turns.dueAtMs, 0, "the rest is due");
    });

  for (const room of [1, 2, 10, TURN_TICKS_MAX - 1])
    it(`when the log has no more room, after ${room} ticks, and goes on when it has`, () => {
      let jobs = Number.POSITIVE_INFINITY;
      const bench: TurnsBench = new TurnsBench(TURN_TICKS_MAX, {
        mayLog: () => bench.engine.totalJobs < jobs,
      });
      bench.settle(0);
      for (jobs = room; jobs < TURN_TICKS_MAX; jobs += room) {
        bench.turns.step(EVERY_MS);
        assert.equal(bench.engine.totalJobs, jobs);
        assert.equal(bench.turns.dueAtMs, Number.POSITIVE_INFINITY);
      }
      jobs = Number.POSITIVE_INFINITY;
      bench.settle(EVERY_MS);
      assert.equal(bench.engine.totalJobs, TURN_TICKS_MAX);
    });
});

describe("the shard looks", () => {
  for (const [offsetMs, dueAtMs] of [
    [0, EVERY_MS],
    [0.5, EVERY_MS],
    [-0.5, EVERY_MS + 1],
    [1, EVERY_MS - 1],
    [1.5, EVERY_MS - 1],
  ] as const)
    it(`when its own clock says that a tick is due, with the wall clock ahead by ${offsetMs} ms`, () => {
      const bench = new TurnsBench(1, { wallOffsetMs: () => offsetMs });
      bench.settle(EVERY_MS - 500);
      assert.equal(bench.turns.dueAtMs, dueAtMs);
      bench.turns.step(dueAtMs - 1);
      assert.equal(bench.engine.totalJobs, 0);
      bench.turns.step(dueAtMs);
      assert.equal(bench.engine.totalJobs, 1);
    });

  for (const [nowMs, dueAtMs] of [
    [EVERY_MS - 1001, EVERY_MS - 1],
    [EVERY_MS - 1000, EVERY_MS],
    [EVERY_MS - 999, EVERY_MS],
    [EVERY_MS - 1, EVERY_MS],
  ] as const)
    it(`after a second at the latest, at ${nowMs} ms`, () => {
      const bench = new TurnsBench(1);
      bench.settle(nowMs);
      assert.equal(bench.turns.dueAtMs, dueAtMs);
    });
});

describe("a clock that goes back", () => {
  for (const [backMs, isNoticed] of [
    [BACK_MS_MAX, false],
    [BACK_MS_MAX + 1001, true],
    [2 * BACK_MS_MAX - 1, true],
    [2 * BACK_MS_MAX, true],
    [2 * BACK_MS_MAX + 1001, true],
  ] as const)
    it(`by ${backMs} ms is ${isNoticed ? "" : "not "}noticed, also the second time`, () => {
      let offsetMs = 0;
      const bench = new TurnsBench(1, { wallOffsetMs: () => offsetMs });
      const schedule = bench.engine.schedules.table.get("s1")!;
      let nowMs = 100 * EVERY_MS;
      for (let time = 1; time <= 2; time++) {
        bench.settle(nowMs);
        assert.equal(schedule.nextMs, nowMs + offsetMs + EVERY_MS);
        offsetMs -= backMs;
        nowMs += 1000;
        const { nextMs } = schedule;
        bench.settle(nowMs);
        const first = Math.floor((nowMs + offsetMs) / EVERY_MS + 1) * EVERY_MS;
        assert.equal(schedule.nextMs, isNoticed ? first : nextMs);
        nowMs = schedule.nextMs - offsetMs;
      }
    });
});

describe("a clock that goes ahead again", () => {
  /** All schedules are held: their next ticks went back with the clock, and it has come forward. */
  const heldBench = (options: Partial<ScheduleTurnsOptions> = {}): [bench: TurnsBench, heldMs: number] => {
    let offsetMs = 0;
    const bench = new TurnsBench(2 * TURN_TICKS_MAX, { wallOffsetMs: () => offsetMs, ...options });
    bench.settle(100 * EVERY_MS);
    offsetMs = -50 * EVERY_MS;
    bench.settle(100 * EVERY_MS + 1000);
    assert.equal(bench.engine.schedules.table.held.size, 2 * TURN_TICKS_MAX);
    offsetMs = 0;
    return [bench, 101 * EVERY_MS];
  };
  const NOW_MS = 100 * EVERY_MS + 2000;

  for (const [tickMs, ended] of [
    [0, TURN_TICKS_MAX],
    [TURN_MS / 4, 5],
    [TURN_MS + 0.01, 1],
  ] as const)
    it(`gives back the ticks of ${ended} schedules in a turn if each takes ${tickMs} ms`, () => {
      let readings = 0;
      const [bench, heldMs] = heldBench({ clock: () => readings++ * tickMs });
      const { table } = bench.engine.schedules;
      const jobs = bench.engine.totalJobs;
      readings = 0;
      bench.turns.step(NOW_MS);
      assert.equal(table.held.size, 2 * TURN_TICKS_MAX - ended);
      assert.equal(bench.turns.dueAtMs, 0, "the rest is due");
      bench.settle(NOW_MS);
      assert.equal(table.held.size, 0);
      assert.deepEqual([...new Set([...table.values()].map(({ nextMs }) => nextMs))], [heldMs]);
      assert.equal(bench.engine.totalJobs, jobs, "no tick that was dealt with puts another job");
    });

  it("gives them back only while the log has room", () => {
    let room = true;
    const [bench] = heldBench({ mayLog: () => room });
    const { table } = bench.engine.schedules;
    room = false;
    bench.turns.step(NOW_MS);
    assert.equal(table.held.size, 2 * TURN_TICKS_MAX);
    room = true;
    bench.settle(NOW_MS);
    assert.equal(table.held.size, 0);
  });
});

describe("the next runs of a schedule", () => {
  const expected = [1, 2, 3, 4, 5].map((tick) => tick * EVERY_MS);
  const runsOf = (
    bench: TurnsBench,
    meanwhile: (step: number) => void,
  ): [steps: number, runs: readonly number[]] => {
    let found: readonly number[] = [];
    const runs = new NextRuns(bench.engine.schedules, "s1", (_, all) => {
      found = all;
    });
    for (let step = 1; ; step++) {
      assert.ok(step < 20, "they end");
      if (runs.step()) {
        runs.finish();
        return [step, found];
      }
      meanwhile(step);
    }
  };

  it("are five, one for each step", () => {
    assert.deepEqual(
      runsOf(new TurnsBench(1), () => {}),
      [5, expected],
    );
  });

  for (const at of [1, 3, 4])
    it(`begin anew if it is set again, or its tick has come, after ${at} steps`, () => {
      const again = new TurnsBench(1);
      const later = expected.map((tick) => 2 * tick);
      const set = (step: number): void => void (step === at && again.set("s1", 2 * EVERY_MS));
      assert.deepEqual(runsOf(again, set), [at + 5, later]);
      const ticked = new TurnsBench(1);
      const tick = (step: number): void => void (step === at && ticked.settle(EVERY_MS));
      assert.deepEqual(runsOf(ticked, tick), [at + 5, expected.map((each) => each + EVERY_MS)]);
    });

  it("are none if it is deleted meanwhile, and end where its ticks end", () => {
    const gone = new TurnsBench(1);
    const { schedules } = gone.engine;
    assert.deepEqual(
      runsOf(gone, (step) => step === 2 && schedules.delete(schedules.table.get("s1")!)),
      [3, []],
    );
    const ending = new TurnsBench(1);
    ending.engine.schedules.table.get("s1")!.nextMs = Number.POSITIVE_INFINITY;
    assert.deepEqual(
      runsOf(ending, () => {}),
      [1, [Number.POSITIVE_INFINITY]],
    );
  });
});

// Tests of the bound on schedules: beyond it they are refused, and those that are there are not.

it("refuses one schedule too many, until another is deleted", () => {
  const server = new HandDrivenServer(1);
  const client = server.connect(true);
  const ask = (command: string): string => {
    client.say(`${command}\r\n`);
    server.settle();
    return client.take();
  };
  const set = (name: string, body = "x"): string =>
    ask(`set-schedule ${name} t 0 0 60 ${body.length} every=3600\r\n${body}`);
  for (let n = 0; n < SCHEDULES_MAX; n++) assert.equal(set(`s${n}`), "SET\r\n", `schedule ${n}`);
  assert.equal(set("more"), "OUT_OF_MEMORY\r\n");
  assert.equal(set("s7", "another body"), "SET\r\n", "a name that is there is set anew");
  assert.equal(ask("delete-schedule s8"), "DELETED\r\n");
  assert.equal(set("more"), "SET\r\n");
  assert.equal(set("s8"), "OUT_OF_MEMORY\r\n");
});

// Tests of schedules that are set: the limits of their bodies and of their number, what a refusal
// leaves, and what a schedule that is set again goes on with.

describe("schedule setter", () => {
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
    for (let id = 1_000_000; schedules.table.size < size; id++)
      addSchedule(schedules, id, `s${id}`, { timing: everyMs(EVERY_MS) }, { nextMs: EVERY_MS });
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
});
