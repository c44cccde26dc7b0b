// Tests of commands in slices, of dead jobs that revive, and of what commands leave behind.

import assert from "node:assert/strict";
import { it } from "node:test";
import { ALL_STATES, MoveOutcome } from "../../../src/engine/job-walk.ts";
import { ReserveOrder } from "../../../src/protocol/request.ts";
import { TracedEngine } from "./traced-engine.ts";

it("touch-all renews each held job once, in slices, though jobs leave meanwhile", () => {
  const traced = new TracedEngine();
  const { engine } = traced;
  const session = traced.session(0);
  for (const id of [1, 2, 3, 4, 5]) {
    traced.put(id, { ttrSeconds: id });
    traced.hold(id);
  }
  traced.wait(500);
  const deadlines = (): string[] => [1, 2, 3, 4, 5].map((id) => /at \d+|gone/.exec(traced.job(id))![0]);
  assert.equal(engine.touchSome(session, true, 2, traced.nowMs), false);
  assert.deepEqual(deadlines(), ["at 1500", "at 2500", "at 3000", "at 4000", "at 5000"]);
  engine.delete(session, 3, traced.nowMs);
  traced.wait(100);
  assert.equal(engine.touchSome(session, false, 1, traced.nowMs), false);
  assert.deepEqual(deadlines(), ["at 1500", "at 2500", "gone", "at 4600", "at 5000"]);
  assert.equal(engine.touchSome(session, false, 1, traced.nowMs), true);
  assert.deepEqual(deadlines(), ["at 1500", "at 2500", "gone", "at 4600", "at 5600"]);
  assert.equal(Math.floor(engine.nextDueAtMs), 1500, "the timer follows");
  assert.equal(engine.touchSome(session, true, 9, traced.nowMs), true, "and all at once");
  assert.deepEqual(deadlines(), ["at 1600", "at 2600", "gone", "at 4600", "at 5600"]);
  assert.equal(engine.touchSome(traced.session(1), true, 9, traced.nowMs), true, "also without a job");
});

it("a dead job that is ready in its own dead-letter tube has its attempts again", () => {
  const traced = new TracedEngine();
  traced.set("t", { maxAttempts: 1, deadLetter: "t" });
  traced.put(1);
  traced.hold(1);
  traced.does((engine, nowMs) => engine.release(engine.session(0), 1, 0, 0, nowMs));
  assert.match(traced.job(1), /^t ready/);
  const revived = (): string => traced.does((engine) => engine.changes.revive(engine.find(1)));
  assert.equal(traced.engine.changes.originOf(traced.engine.find(1)), "t");
  assert.equal(revived(), "true: updated 1");
  assert.equal(traced.engine.changes.originOf(traced.engine.find(1)), "");
  assert.match(traced.job(1), / excused 1$/);
  traced.hold(1);
  assert.equal(revived(), "false", "its holder decides");
});

it("the meters of a tube hear what those of all tubes hear", () => {
  const traced = new TracedEngine();
  traced.put(1, { tube: "metered" });
  traced.wait(5);
  assert.equal(traced.hold(1), "done: waited 5, metered: waited 5");
  traced.wait(7);
  const release = traced.does((engine, nowMs) => engine.release(engine.session(0), 1, 0, 0, nowMs));
  assert.equal(release, "done: held 7, metered: held 7, updated 1");
});

it("a put that the log refuses, before or at its end, leaves nothing behind", () => {
  for (const when of ["begins", "ends"] as const) {
    const traced = new TracedEngine();
    traced.session(0);
    traced.log[when] = false;
    assert.equal(traced.put(1, { tube: "u", delaySeconds: 1 }, { expiresAtMs: 9 }), "noroom");
    assert.deepEqual([traced.job(1), traced.tube("u"), traced.engine.totalJobs], ["gone", "none", 0]);
    assert.equal(traced.engine.nextDueAtMs, Number.POSITIVE_INFINITY);
    traced.log[when] = true;
    assert.equal(traced.put(1, { tube: "u" }), "done: put 1, stored 0");
  }
});

it("a refused move leaves no tube behind, and a tube that is no longer watched no share", () => {
  const traced = new TracedEngine({ orderedTubesMin: 0 });
  const { engine } = traced;
  const session = traced.session(0, "a", "b");
  traced.set("full", { maxBytes: 9 });
  for (const id of [1, 2]) traced.put(id, { tube: id === 1 ? "a" : "b", bodyBytes: 10 });
  const search = engine.walk({ states: ALL_STATES, createdByMs: 0, contains: Buffer.from("x") }, 0);
  assert.deepEqual([search.work(undefined), search.work(engine.findTube("a"))], [Infinity, 3]);
  assert.equal(engine.changes.move(engine.find(1), "full", false, 0), MoveOutcome.Full);
  assert.equal(traced.tube("full"), "none");
  engine.setOrder(session, ReserveOrder.Weighted, 0);
  engine.reserve(session, 0, 0);
  engine.ignore(session, "a");
  engine.delete(session, 1, 0);
  assert.equal(session.turns!.shares.size, 1);
});
