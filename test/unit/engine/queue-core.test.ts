// Tests of an engine's waiters, and of the job that each of them gets.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine, Outcome, ReserveOutcome } from "../../../src/engine/engine.ts";
import { rowOf } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes, type JobChange } from "../../../src/engine/jobs/new-job.ts";
import { unheardEffects } from "../../support/in-process/effects.ts";
import { checkInvariants } from "../../support/in-process/engine-invariants.ts";
import { EngineBench } from "./engine-bench.ts";

const wideTubes = Array.from({ length: 12 }, (_, i) => `wide-${i}`);

describe("Engine serves waiters", () => {
  it("in the order of their waits, each once", () => {
    const bench = new EngineBench();
    const producer = bench.session(0, "t");
    const workers = [5, 3, 8, 1].map((index) => bench.session(index, "t", "t"));
    for (const worker of workers) assert.equal(bench.reserve(worker), "waits");
    for (let i = 0; i < 4; i++) bench.put(producer);
    assert.deepEqual(bench.takeEffects(), [
      "session 5: job 1",
      "session 3: job 2",
      "session 8: job 3",
      "session 1: job 4",
    ]);
    bench.put(producer);
    assert.deepEqual(bench.takeEffects(), []);
  });

  it("with a session that waits again at the end", () => {
    const bench = new EngineBench();
    const producer = bench.session(0, "t");
    const [one, two] = [bench.session(1, "t", "t"), bench.session(2, "t", "t")];
    bench.reserve(one);
    bench.reserve(two);
    const order: string[] = [];
    for (let i = 0; i < 6; i++) {
      bench.put(producer);
      const [effect] = bench.takeEffects();
      order.push(effect!.slice(8, 9));
      bench.reserve(effect!.startsWith("session 1") ? one : two);
    }
    assert.equal(order.join(""), "121212");
  });

  it("of many and of few tubes in one order", () => {
    const bench = new EngineBench();
    const producer = bench.session(0, "wide-3");
    const [wide, narrow] = [bench.session(1, "t", ...wideTubes), bench.session(2, "t", "wide-3")];
    const other = bench.session(3, "t", ...wideTubes);
    for (const session of [wide, narrow, other]) bench.reserve(session);
    for (let i = 0; i < 3; i++) bench.put(producer);
    assert.deepEqual(bench.takeEffects(), ["session 1: job 1", "session 2: job 2", "session 3: job 3"]);
  });

  it("except those whose wait has ended elsewhere", () => {
    const bench = new EngineBench();
    const producer = bench.session(0, "t");
    const [shared, alone] = [bench.session(1, "t", "t"), bench.session(2, "t", "t")];
    bench.engine.waitShared(shared, Number.POSITIVE_INFINITY, 0);
    bench.reserve(alone);
    bench.endedElsewhere.add(1);
    bench.put(producer);
    assert.deepEqual(bench.takeEffects(), ["session 2: job 1"]);
    bench.engine.stopSharedWait(shared, 0);
    bench.check();
  });

  it("with a wait over several shards that finds a job at once", () => {
    const bench = new EngineBench();
    bench.put(bench.session(0, "t"));
    bench.engine.waitShared(bench.session(1, "t", "t"), Number.POSITIVE_INFINITY, 0);
    assert.deepEqual(bench.takeEffects(), ["session 1: job 1"]);
  });

  it("when a holder closes, times out or releases, and after a kick", () => {
    const bench = new EngineBench();
    const holder = bench.session(1, "t", "t");
    const waiter = bench.session(2, "t", "t");
    const job = bench.put(holder, { ttr: 5 });
    assert.equal(bench.reserve(holder), "job 1");
    bench.reserve(waiter);
    assert.equal(bench.release(holder, job, 7), "done");
    assert.deepEqual(bench.takeEffects(), ["session 2: job 1"]);
    bench.reserve(holder);
    assert.equal(bench.bury(waiter, job), "done");
    assert.equal(bench.kick(holder, 1), 1);
    assert.deepEqual(bench.takeEffects(), ["session 1: job 1"]);
    bench.reserve(waiter);
    assert.deepEqual(bench.jump(5001), ["session 2: job 1"]);
    bench.reserve(holder);
    bench.engine.closeSession(waiter, bench.nowMs);
    assert.deepEqual(bench.takeEffects(), ["session 1: job 1"]);
  });
});

describe("Engine gives the best job", () => {
  it("by priority, then by id, over all watched tubes (protocol/README.md 4.1)", () => {
    const bench = new EngineBench();
    const producer = bench.session(0, "b");
    bench.put(producer, { pri: 10 });
    bench.engine.use(producer, "a");
    bench.put(producer, { pri: 10 });
    bench.engine.use(producer, "c");
    bench.put(producer, { pri: 5 });
    bench.engine.use(producer, "a");
    bench.put(producer, { pri: 5 });
    const worker = bench.session(1, "t", "a", "b", "c");
    assert.deepEqual(
      [1, 2, 3, 4].map(() => bench.reserve(worker)),
      ["job 3", "job 4", "job 1", "job 2"],
    );
  });

  it("equally to sessions with many and with few tubes", () => {
    const bench = new EngineBench();
    const producer = bench.session(0, "wide-9");
    bench.put(producer, { pri: 2 });
    bench.engine.use(producer, "wide-2");
    bench.put(producer, { pri: 1 });
    assert.equal(bench.reserve(bench.session(1, "t", ...wideTubes)), "job 2");
    assert.equal(bench.reserve(bench.session(2, "t", ...wideTubes)), "job 1");
  });

  it("with priorities beyond 31 bits after smaller ones", () => {
    const bench = new EngineBench();
    const session = bench.session(0, "t", "t");
    bench.put(session, { pri: 4294967295 });
    bench.put(session, { pri: 2147483648 });
    bench.put(session, { pri: 2147483647 });
    assert.deepEqual(
      [1, 2, 3].map(() => bench.reserve(session)),
      ["job 3", "job 2", "job 1"],
    );
  });

  it("a released job before younger ones of its priority", () => {
    const bench = new EngineBench();
    const session = bench.session(0, "t", "t");
    bench.put(session);
    bench.put(session);
    bench.reserve(session);
    bench.release(session, 1);
    assert.equal(bench.reserve(session), "job 1");
  });

  it("to a take only within its bound", () => {
    const bench = new EngineBench();
    const session = bench.session(0, "t", "t");
    const job = bench.put(session, { pri: 5 });
    assert.equal(bench.take(session, 4, Number.POSITIVE_INFINITY), "nothing");
    assert.equal(bench.take(session, 5, job - 1), "nothing");
    assert.equal(bench.take(session, 5, job), `job ${job}`);
    bench.check();
  });
});

// Tests of more simultaneous expirations than a turn may handle: no client gets an expired job in
// the meantime, and a waiting one gets the first live job.

const TURN = 5;
const EXPIRED = 23;

it("no expired job is given out, however many there are", () => {
  const given: number[] = [];
  const effects = unheardEffects({
    reserved: (_, slot) => given.push(engine.jobs.pageOf(slot).id[rowOf(slot)]!),
  });
  const engine: Engine = new Engine({ effects, ownsDefaultTube: true, turnDueMax: TURN });
  const [worker, other] = [engine.session(0), engine.session(1)];
  for (const session of [worker, other]) {
    engine.use(session, "default");
    engine.watch(session, "default");
  }
  engine.beginTurn();
  for (let id = 1; id <= EXPIRED + 1; id++) {
    const attributes = new JobAttributes();
    // The last one has the worst priority, and lives.
    attributes.expiresAtMs = id <= EXPIRED ? 1000 : 0;
    const job = { id, pri: id, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
    engine.put(worker, job, engine.bodies.allocate(0), 0, "default", attributes);
  }
  engine.beginTurn();
  assert.equal(
    engine.reserve(worker, 60_000, 1000),
    ReserveOutcome.Waits,
    "the next turns have to go on first",
  );
  assert.equal(engine.find(EXPIRED) >= 0, true, "there are some left");
  for (let turn = 0; given.length === 0; turn++) {
    assert.ok(turn <= EXPIRED / TURN + 1, "they end");
    engine.beginTurn();
    engine.runDue(1000);
    assert.ok(given.every((id) => id > EXPIRED));
  }
  assert.deepEqual(given, [EXPIRED + 1]);
  assert.equal(engine.jobs.live, 1);
  assert.equal(engine.findTube("default")!.counts.expired, EXPIRED);
  checkInvariants(engine, [0, 1]);
});

it("a kicked job whose time to live is over expires, and no waiter gets it", () => {
  const effects = unheardEffects({ reserved: () => assert.fail("it has expired") });
  const engine: Engine = new Engine({ effects, ownsDefaultTube: true });
  const [worker, waiting] = [engine.session(0), engine.session(1)];
  for (const session of [worker, waiting]) {
    engine.use(session, "default");
    engine.watch(session, "default");
  }
  const attributes = new JobAttributes();
  attributes.expiresAtMs = 1000;
  const job = { id: 1, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
  engine.put(worker, job, engine.bodies.allocate(0), 0, "default", attributes);
  assert.ok(engine.reserve(worker, 0, 0) >= 0);
  engine.bury(worker, 1, 0, 0);
  assert.equal(engine.reserve(waiting, 60_000, 2000), ReserveOutcome.Waits);
  assert.equal(engine.jobs.live, 1, "a buried job does not expire");
  assert.equal(engine.kickJob(1, 2000), Outcome.Done);
  assert.equal(engine.jobs.live, 0);
  checkInvariants(engine, [0, 1]);
});

// Tests of the measured time that a job was held, whatever ends the hold.

const NOTHING: JobChange = {
  pri: undefined,
  delayMs: undefined,
  ttrSeconds: undefined,
  ttlMs: undefined,
  tube: undefined,
};

/** Returns the times of holds that a change of a job measures, held for three seconds. */
function heldMs(change: Partial<JobChange>): number[] {
  const held: number[] = [];
  const bench = new EngineBench({
    waited: () => {},
    held: (ms) => void held.push(ms),
    stored: () => {},
    of: () => undefined,
  });
  const session = bench.session(0, "t", "t");
  bench.put(session, { ttr: 60 });
  bench.reserve(session);
  bench.nowMs = 3000;
  bench.engine.changes.update(session, 1, { ...NOTHING, ...change }, bench.nowMs);
  bench.check();
  return held;
}

it("a job that update-job returns was held since it was reserved", () => {
  for (const ttrSeconds of [undefined, 1, 60, 5000])
    for (const where of [{ delayMs: 0 }, { delayMs: 9000 }, { tube: "t" }, { tube: "other" }])
      assert.deepEqual(heldMs({ ttrSeconds, ...where }), [3000], JSON.stringify({ ttrSeconds, ...where }));
});

it("a job that its holder keeps is measured later", () => {
  assert.deepEqual(heldMs({ ttrSeconds: 5000, pri: 7, ttlMs: 10_000 }), []);
});
