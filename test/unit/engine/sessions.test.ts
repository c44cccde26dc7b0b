// Tests of sessions: their places, their waits and what they hand to others.

import assert from "node:assert/strict";
import { it } from "node:test";
import { TracedEngine } from "./traced-engine.ts";

it("a session keeps its tubes when it gets another place", () => {
  const traced = new TracedEngine();
  const { engine } = traced;
  const session = traced.session(1, "a", "b");
  engine.detachSession(session);
  assert.equal(engine.sessionAt(1), undefined);
  engine.adoptSession(session, 2);
  assert.equal(engine.sessionAt(2), session);
  assert.notEqual(traced.session(1), session);
  traced.session(2);
  engine.reserve(session, 1e6, 0);
  assert.equal(traced.put(1, { tube: "b" }), "done: put 1, stored 0, waited 0, 2: gets 1");
});

it("a reservation that is handed on keeps its deadline, and belongs to its new holder", () => {
  const traced = new TracedEngine();
  const { engine } = traced;
  const [from, to] = [traced.session(0), traced.session(1)];
  traced.put(1, { ttrSeconds: 2 });
  traced.put(2, { ttrSeconds: 1 });
  traced.hold(1, from);
  traced.hold(2, from);
  traced.wait(500);
  engine.hand(engine.find(2), from, to);
  assert.equal(traced.take(), "");
  assert.equal(
    traced.does(() => engine.touch(from, 2, 500)),
    "notfound",
  );
  assert.equal(Math.floor(engine.nextDueAtMs), 1000);
  assert.equal(traced.wait(501), "updated 2");
  assert.equal(Math.floor(engine.nextDueAtMs), 2000);
  assert.match(traced.job(1), /^t reserved/);
});

it("a client that waits is counted until its wait ends, here or elsewhere", () => {
  const traced = new TracedEngine();
  const { engine } = traced;
  const many = Array.from({ length: 12 }, (_, index) => `t${index}`);
  const [one, wide, shared] = [traced.session(1, "t0"), traced.session(2, ...many), traced.session(3, "t0")];
  const tube = engine.findTube("t0")!;
  engine.reserve(one, 1e6, 0);
  engine.reserve(wide, 1e6, 0);
  engine.waitShared(shared, 1e6, 0);
  assert.deepEqual([engine.waitingOn(tube), engine.waitingAlone], [3, 2]);
  assert.equal(engine.waitingOn(engine.findTube("t5")!), 1);
  traced.claimed = true;
  assert.equal(engine.waitingOn(tube), 2, "a wait that another shard has claimed");
  assert.equal(engine.abortWait(one, 0), true);
  assert.equal(engine.abortWait(one, 0), false);
  assert.equal(engine.abortWait(shared, 0), false, "not of this shard alone");
  assert.deepEqual([engine.waitingOn(tube), engine.waitingAlone], [1, 1]);
  assert.equal(traced.put(1, { tube: "t0" }), "done: put 1, stored 0, waited 0, 2: gets 1");
  assert.equal(engine.hasReserved(tube), true);
  assert.equal(engine.jobsReserved, 1);
  engine.delete(wide, 1, 0);
  assert.deepEqual([engine.hasReserved(tube), engine.jobsReserved, engine.waitingOn(tube)], [false, 0, 0]);
  assert.equal(traced.take(), "held 0, deleted 1");
});

it("a client that can't send any more does not wait", () => {
  const traced = new TracedEngine();
  const { engine } = traced;
  const session = traced.session(1, "t");
  assert.equal(
    traced.does(() => engine.halfClose(session, 0)),
    "undefined",
  );
  assert.ok(engine.reserve(session, 1e6, 0) < 0);
  assert.equal(engine.waitingAlone, 0);
  const waits = traced.session(2, "t");
  engine.reserve(waits, 1e6, 0);
  assert.equal(
    traced.does(() => engine.halfClose(waits, 0)),
    "undefined: 2: timed out",
  );
  const shared = traced.session(3, "t");
  engine.waitShared(shared, 1e6, 0);
  assert.equal(
    traced.does(() => engine.halfClose(shared, 0)),
    "undefined",
    "its acceptor ends it",
  );
  engine.abandonWait(shared);
  assert.equal(engine.waitingOn(engine.findTube("t")!), 0);
  engine.abandonWait(shared);
});

it("a best job is taken only if it is good enough", () => {
  const traced = new TracedEngine();
  const session = traced.session(1, "t");
  traced.put(5, { pri: 7 });
  for (const [pri, id, isTaken] of [
    [6, 9, false],
    [7, 4, false],
    [7, 5, true],
    [7, 6, true],
    [8, 1, true],
  ] as const) {
    const slot = traced.engine.takeUpTo(session, pri, id, 0);
    assert.equal(slot >= 0, isTaken, `${pri} ${id}`);
    if (isTaken) traced.engine.giveBackOne(session, 5, 0);
  }
  traced.engine.delete(session, 5, 0);
  assert.ok(traced.engine.takeUpTo(session, 9, 9, 0) < 0);
});
