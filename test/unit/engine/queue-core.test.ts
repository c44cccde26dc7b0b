// Tests of an engine's waiters beside jobs that expire, and of the time that a job was held.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Engine, Outcome, ReserveOutcome } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { rowOf } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes, type JobChange } from "../../../src/engine/jobs/new-job.ts";
import { unheardEffects } from "../../support/in-process/effects.ts";
import { checkInvariants } from "../../support/in-process/engine-invariants.ts";
import { EngineBench } from "./engine-bench.ts";
import { TracedEngine } from "./traced-engine.ts";

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

/** The cost of puts, in turn into two tubes that many sessions watch, and who is told how often. */
function putForFills(sessions: number, fillsAt: number, jobs: number): { looks: number; told: string } {
  const traced = new TracedEngine();
  const { engine } = traced;
  for (let index = 1; index <= sessions; index++) {
    const session = traced.session(index, "a", "b");
    engine.waitToFill(session, fillsAt, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 0);
  }
  traced.session(0);
  const before = engine.looks;
  for (let id = 1; id <= jobs; id++) {
    const job = {
      ...{ id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60 },
      ...{ bodyBytes: 0, atMs: 0 },
    };
    engine.put(engine.session(0), job, EMPTY_BODY, 0, id % 2 === 0 ? "a" : "b");
  }
  const told =
    traced
      .take()
      .match(/\d+: wait due/g)
      ?.join() ?? "";
  return { looks: engine.looks - before, told };
}

it("puts rarely examine the sessions that wait for a batch to fill from several tubes", () => {
  const { looks, told } = putForFills(500, 900, 899);
  assert.equal(told, "");
  // Each time, the part of the missing jobs that one tube gets halves.
  assert.ok(looks < 500 * 100, `${looks} looks`);
});

it("puts examine no session that waits for a batch while the acceptor of one counts", () => {
  const full = putForFills(500, 900, 900);
  assert.equal(full.told, "1: wait due");
  const { looks, told } = putForFills(500, 900, 1900);
  assert.equal(told, "1: wait due");
  assert.ok(looks - full.looks < 2 * 500, `${looks - full.looks} looks for the last puts`);
});
