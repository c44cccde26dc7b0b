// Tests with a hundred thousand of everything that a client may choose: no turn takes long, and the
// total is not quadratic.
//
// The limits are a hundred times the usual duration; the regressions that they catch took minutes.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Engine } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { JobState, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { ClientEffects } from "../../../src/engine/state/effects.ts";
import type { Session } from "../../../src/engine/state/session.ts";
import { memoryInUse } from "../../support/machine/memory-in-use.ts";

const MANY = 100_000;
const TURN = 2000;
const TURN_MS_MAX = 500;
const ALL_MS_MAX = 20_000;

/** Time of this thread alone: others may use the processor. */
function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

interface Scene {
  readonly engine: Engine;
  /** Effects so far, as `session 1: job 3`. */
  readonly effects: string[];
  /** Takes turns until nothing is due; returns how many. */
  readonly turns: (nowMs: number) => number;
}

function scene(): Scene {
  const effects: string[] = [];
  const say = (session: Session, what: string): void =>
    void effects.push(`session ${session.index}: ${what}`);
  let sequence = 0;
  const client: ClientEffects = {
    reserved: (session, slot) => say(session, `job ${engine.jobs.pageOf(slot).id[rowOf(slot)]}`),
    timedOut: (session) => say(session, "timed out"),
    deadlineSoon: (session) => say(session, "deadline soon"),
    waitDue: (session) => say(session, "wait due"),
    claim: () => true,
    stillWaiting: () => true,
    nextTubeSequence: () => ++sequence,
  };
  const engine: Engine = new Engine({ effects: client, ownsDefaultTube: true, turnDueMax: TURN });
  const turns = (nowMs: number): number => {
    let count = 0;
    for (; engine.nextDueAtMs <= nowMs; count++) {
      assert.ok(count < MANY, "it comes to an end");
      engine.beginTurn();
      const startMs = cpuMs();
      engine.runDue(nowMs);
      const tookMs = cpuMs() - startMs;
      assert.ok(tookMs < TURN_MS_MAX, `a turn took ${tookMs} ms`);
    }
    return count;
  };
  return { engine, effects, turns };
}

function put(engine: Engine, session: Session, id: number, delaySeconds: number, nowMs: number): void {
  const job = { id, pri: 0, delaySeconds, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: nowMs };
  engine.put(session, job, EMPTY_BODY, nowMs);
}

/**
 * A session that uses and watches the tubes 0 to `count - 1`, with a job in each: id `i + 1` in the
 * tube `count - 1 - i`.
 */
function tubesWithJobs(engine: Engine, count: number): Session {
  const session = engine.session(0);
  for (let tube = 0; tube < count; tube++) {
    engine.use(session, `t${tube}`);
    put(engine, session, count - tube, 0, 0);
  }
  return session;
}

it("100,000 pauses that end together are spread over turns, and a waiter gets the best job of a turn", () => {
  const { engine, effects, turns } = scene();
  tubesWithJobs(engine, MANY);
  for (let tube = 0; tube < MANY; tube++) engine.pause(`t${tube}`, 3, (tube * 7919) % 1000);
  const worker = engine.session(1);
  for (let tube = 0; tube < MANY; tube++) engine.watch(worker, `t${tube}`);
  engine.reserve(worker, Number.POSITIVE_INFINITY, 2000);
  const startMs = cpuMs();
  assert.equal(turns(4000), MANY / TURN);
  assert.ok(cpuMs() - startMs < ALL_MS_MAX, "n log n");
  assert.equal(effects.length, 1);
  assert.ok([...engine.tubes.values()].every((tube) => !tube.paused && tube.pauseSeconds === 0));
});

it("jobs of tubes resumed in one turn go to waiters best first", () => {
  const { engine, effects, turns } = scene();
  tubesWithJobs(engine, TURN);
  for (let tube = 0; tube < TURN; tube++) engine.pause(`t${tube}`, 3, (tube * 7919) % 1000);
  for (let worker = 1; worker <= 5; worker++) {
    // Even tubes have jobs of even ids, the last tubes the smallest.
    for (let tube = worker % 2; tube < TURN; tube += 2) engine.watch(engine.session(worker), `t${tube}`);
    engine.reserve(engine.session(worker), Number.POSITIVE_INFINITY, 2000);
  }
  assert.equal(turns(4000), 1);
  assert.deepEqual(effects, [
    "session 1: job 1",
    "session 2: job 2",
    "session 3: job 3",
    "session 4: job 4",
    "session 5: job 5",
  ]);
});

it("100,000 delayed jobs due together are spread over turns, earliest first, before timeouts", () => {
  const { engine, effects, turns } = scene();
  const session = engine.session(0);
  engine.use(session, "a");
  engine.watch(engine.session(1), "other");
  engine.reserve(engine.session(1), 1000, 0);
  for (let id = 1; id <= MANY; id++) put(engine, session, id, 5 - (id % 2), 0);
  engine.beginTurn();
  engine.runDue(9000);
  assert.equal(engine.jobCounts[JobState.Ready], TURN);
  assert.equal(engine.tubes.get("a")!.ready.top, engine.find(1), "odd ones were due first");
  engine.runDue(9000);
  assert.equal(engine.jobCounts[JobState.Ready], TURN, "a turn does no more, however often it asks");
  assert.deepEqual(effects, []);
  turns(9000);
  assert.equal(engine.jobCounts[JobState.Ready], MANY);
  assert.deepEqual(effects, ["session 1: timed out"]);
});

it("100,000 reservations of a session that expire together are spread over turns, and its wait ends in the last", () => {
  const { engine, effects, turns } = scene();
  const session = engine.session(0);
  engine.use(session, "a");
  engine.watch(session, "a");
  for (let id = 1; id <= MANY; id++) put(engine, session, id, 0, 0);
  for (let id = 1; id <= MANY; id++) engine.reserve(session, 0, 0);
  engine.pause("a", 1000, 0);
  engine.reserve(session, Number.POSITIVE_INFINITY, 0);
  const worker = engine.session(1);
  engine.watch(worker, "a");
  engine.reserve(worker, 59_000, 0);
  // One stall over the margin and the end of them all.
  assert.equal(turns(61_000), MANY / TURN + 1);
  assert.equal(engine.jobCounts[JobState.Ready], MANY);
  assert.equal(engine.jobTimeouts, MANY);
  assert.deepEqual(effects.toSorted(), ["session 0: deadline soon", "session 1: timed out"]);
});

it("the end of a session with 100,000 watches is spread over turns, and its wait ends in the first", () => {
  const { engine, effects } = scene();
  const session = engine.session(1);
  for (let tube = 0; tube < MANY; tube++) engine.watch(session, `t${tube}`);
  engine.reserve(session, Number.POSITIVE_INFINITY, 0);
  engine.abandonWait(session, 0);
  const producer = engine.session(0);
  engine.use(producer, "t5");
  put(engine, producer, 1, 0, 0);
  assert.deepEqual(effects, []);
  for (let turn = 1; turn < MANY / TURN; turn++) {
    assert.equal(engine.giveBack(session, TURN, 0), false);
    assert.equal(session.watches.size, MANY - turn * TURN);
  }
  engine.giveBack(session, TURN, 0);
  assert.equal(engine.giveBack(session, TURN, 0), true);
  engine.closeSession(session, 0);
  assert.deepEqual([...engine.tubes.keys()], ["default", "t5"]);
});

it("a put doesn't look at waiters for other tubes, however many", () => {
  const { engine, effects } = scene();
  const producer = engine.session(0);
  let lookedAt = 0;
  for (let index = 1; index <= 2000; index++) {
    const session = engine.session(index);
    // Nine tubes and more are too many for a list in each. The last session shares a tube with a
    // busy one.
    for (let tube = 0; tube < 9; tube++) engine.watch(session, `t${index === 2000 ? 99 : tube}`);
    for (let tube = 0; tube < 9; tube++) engine.watch(session, `u${index}-${tube}`);
    const { has } = session.watches;
    session.watches.has = (tube) => {
      lookedAt++;
      return has.call(session.watches, tube);
    };
    engine.reserve(session, Number.POSITIVE_INFINITY, 0);
  }
  engine.use(producer, "elsewhere");
  put(engine, producer, 1, 0, 0);
  assert.equal(lookedAt, 0);
  engine.use(producer, "t99");
  put(engine, producer, 2, 0, 0);
  assert.deepEqual(effects, ["session 2000: job 2"]);
  assert.ok(lookedAt < 100, `looked at ${lookedAt}`);
});

it("a repeated wait for 100,000 tubes doesn't touch all of them", () => {
  const { engine, effects } = scene();
  const [producer, worker] = [engine.session(0), engine.session(1)];
  for (let tube = 0; tube < MANY; tube++) engine.watch(worker, `t${tube}`);
  const startMs = cpuMs();
  for (let id = 1; id <= 2000; id++) {
    engine.reserve(worker, Number.POSITIVE_INFINITY, 0);
    engine.use(producer, `t${(id * 7919) % MANY}`);
    put(engine, producer, id, 0, 0);
  }
  assert.equal(effects.length, 2000);
  assert.ok(cpuMs() - startMs < ALL_MS_MAX / 20, "a wait is not a loop over its tubes");
});

it("a tube without jobs takes less than 400 bytes, and one with a job or a watch little more", () => {
  const { engine } = scene();
  const names = Array.from({ length: MANY }, (_, tube) => `tube ${tube}`);
  const [producer, watcher] = [engine.session(0), engine.session(1)];
  const users = names.map((_, index) => engine.session(2 + index));
  const bytesOf = (make: (name: string, index: number) => void): number => {
    const before = memoryInUse();
    names.forEach(make);
    return (memoryInUse() - before) / MANY;
  };
  const used = bytesOf((name, index) => engine.use(users[index]!, name));
  // The table's row and the index of ids, 93 bytes, are among those of a job; the watch itself is
  // among the other's.
  const withJob = bytesOf((name, index) => {
    engine.use(producer, name);
    put(engine, producer, index + 1, 0, 0);
  });
  const watched = bytesOf((name) => engine.watch(watcher, name));
  assert.ok(used < 400, `${used} bytes for a tube in use`);
  assert.ok(withJob < 300, `${withJob} bytes more with a job`);
  assert.ok(watched < 400, `${watched} bytes more with a watch of a session with many`);
});
