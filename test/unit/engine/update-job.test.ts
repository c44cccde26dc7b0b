// Tests of update-job: what it changes of a job in each state, what it refuses and records.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JobChange } from "../../../src/engine/jobs/new-job.ts";
import { TracedEngine } from "./traced-engine.ts";

const NO_CHANGE: JobChange = { pri: undefined, ttrSeconds: undefined, delayMs: undefined };

/** Puts job 1 into a state, at 1000 ms; session 0 holds it if anyone does. */
function inState(state: string): TracedEngine {
  const traced = new TracedEngine();
  const session = traced.session(0);
  traced.put(1, { delaySeconds: state === "delayed" ? 9 : 0, bodyBytes: 10 });
  if (state === "held" || state === "buried") traced.hold(1);
  if (state === "buried") {
    traced.engine.bury(session, 1, 0, 0);
    traced.put(2);
    traced.hold(2);
    traced.engine.bury(session, 2, 0, 0);
  }
  traced.wait(1000);
  return traced;
}

const updated = (traced: TracedEngine, change: Partial<JobChange>, session = 0): string =>
  traced.does((engine, nowMs) =>
    engine.changes.update(engine.session(session), 1, { ...NO_CHANGE, ...change }, nowMs),
  );

/** What an update says, and job 1 afterwards. */
// biome-ignore format: a table
const ROWS: readonly (readonly [state: string, change: Partial<JobChange>, after: string])[] = [
  ["ready", { pri: 7 }, "done: updated 1 | t ready pri 7 bytes 10 | totalJobs 1"],
  ["held", { pri: 7 }, "done: updated 1 | t reserved pri 7 reserves 1 at 60000 bytes 10 | totalJobs 1 reserves 1"],
  ["buried", { pri: 7 }, "done: updated 1 | t buried pri 7 reserves 1 buries 1 at 1000 bytes 10 | totalJobs 2 reserves 2 buries 2"],
  ["ready", { ttrSeconds: 5 }, "done: updated 1 | t ready ttr -55 bytes 10 | totalJobs 1"],
  ["held", { ttrSeconds: 5 }, "done: updated 1 | t reserved ttr -55 reserves 1 at 6000 bytes 10 | totalJobs 1 reserves 1"],
  ["ready", { ttlMs: 500 }, "done: updated 1 | t ready expires 1500 bytes 10 | totalJobs 1"],
  ["held", { ttlMs: 500 }, "done: updated 1 | t reserved reserves 1 at 60000 expires 1500 bytes 10 | totalJobs 1 reserves 1"],
  ["buried", { ttlMs: 500 }, "done: updated 1 | t buried reserves 1 buries 1 at 1000 expires 1500 bytes 10 | totalJobs 2 reserves 2 buries 2"],
  ["ready", { delayMs: 0 }, "done: updated 1 | t ready bytes 10 | totalJobs 1"],
  ["delayed", { delayMs: 0 }, "done: updated 1 | t ready at 1000 bytes 10 | totalJobs 1"],
  ["held", { delayMs: 0 }, "done: held 1000, updated 1 | t ready reserves 1 releases 1 at 1000 excused 1 bytes 10 | totalJobs 1 reserves 1 releases 1"],
  ["buried", { delayMs: 0 }, "done: updated 1 | t ready reserves 1 buries 1 at 1000 bytes 10 | totalJobs 2 reserves 2 buries 2"],
  ["ready", { delayMs: 2500 }, "done: updated 1 | t delayed delay 2 at 3500 bytes 10 | totalJobs 1"],
  ["held", { delayMs: 2500 }, "done: held 1000, updated 1 | t delayed delay 2 reserves 1 releases 1 at 3500 excused 1 bytes 10 | totalJobs 1 reserves 1 releases 1"],
  ["buried", { delayMs: 2500 }, "done: updated 1 | t delayed delay 2 reserves 1 buries 1 at 3500 bytes 10 | totalJobs 2 reserves 2 buries 2"],
  ["ready", { tube: "u" }, "done: updated 1 | u ready at 1000 bytes 10 | totalJobs 1 movedOut 1"],
  ["held", { tube: "u" }, "done: held 1000, updated 1 | u ready reserves 1 releases 1 at 1000 excused 1 bytes 10 | totalJobs 1 reserves 1 releases 1 movedOut 1"],
  ["buried", { tube: "u" }, "done: updated 1 | u buried reserves 1 buries 1 at 1000 bytes 10 | totalJobs 2 reserves 2 buries 2 movedOut 1"],
  ["held", { tube: "t" }, "done: held 1000, updated 1 | t ready reserves 1 releases 1 at 1000 excused 1 bytes 10 | totalJobs 1 reserves 1 releases 1"],
  ["held", { tube: "u", delayMs: 2500 }, "done: held 1000, updated 1 | u delayed delay 2 reserves 1 releases 1 at 3500 excused 1 bytes 10 | totalJobs 1 reserves 1 releases 1 movedOut 1"],
  ["buried", { tube: "u", delayMs: 2500 }, "done: updated 1, updated 1 | u delayed delay 2 reserves 1 buries 1 at 3500 bytes 10 | totalJobs 2 reserves 2 buries 2 movedOut 1"],
  ["held", { tube: "t", delayMs: 2500 }, "done: held 1000, updated 1 | t delayed delay 2 reserves 1 releases 1 at 3500 excused 1 bytes 10 | totalJobs 1 reserves 1 releases 1"],
  ["buried", { tube: "far" }, "othershard | t buried reserves 1 buries 1 bytes 10 | totalJobs 2 reserves 2 buries 2"],
];

describe("update-job", () => {
  for (const [state, change, after] of ROWS)
    it(`of a ${state} job: ${JSON.stringify(change)}`, () => {
      const traced = inState(state);
      assert.equal(`${updated(traced, change)} | ${traced.job(1)} | ${traced.tube("t")}`, after);
    });

  it("puts a buried job behind the others, where a restart would have it", () => {
    const traced = inState("buried");
    updated(traced, { pri: 7 });
    const kicked = (): string => traced.does((engine, nowMs) => engine.kick(engine.session(0), 1, nowMs));
    assert.match(kicked(), /updated 2/);
    assert.match(kicked(), /updated 1/);
  });

  it("gives a waiting job a time to live at once, others when they wait again", () => {
    for (const state of ["ready", "delayed", "held", "buried"]) {
      const atMs = state === "ready" || state === "delayed" ? 1500 : Number.POSITIVE_INFINITY;
      const traced = inState(state);
      updated(traced, { ttlMs: 500 });
      assert.equal(traced.engine.policies.nextAtMs, atMs, state);
      updated(traced, { ttlMs: 0 });
      assert.equal(traced.engine.policies.nextAtMs, Number.POSITIVE_INFINITY, state);
      updated(traced, { ttlMs: 500 });
      traced.wait(499);
      assert.notEqual(traced.job(1), "gone", state);
      traced.wait(1);
      assert.equal(traced.job(1) === "gone", atMs === 1500, state);
    }
  });

  it("refuses what it must not change, and leaves no tube behind", () => {
    const traced = inState("held");
    assert.equal(updated(traced, { pri: 7 }, 1), "notfound");
    assert.equal(
      traced.does((engine) => engine.changes.update(engine.session(0), 9, NO_CHANGE, 0)),
      "notfound",
    );
    traced.set("full", { maxBytes: 9 });
    assert.equal(updated(traced, { tube: "full" }), "tubefull");
    assert.equal(traced.tube("full"), "none");
    assert.equal(updated(traced, { tube: "far" }), "othershard");
    assert.match(traced.job(1), /^t reserved/);
    traced.engine.transfers.depart(traced.engine.find(1), 7, traced.nowMs);
    assert.equal(updated(traced, { pri: 7 }), "notfound");
  });

  it("does not count as a lost attempt", () => {
    for (const [change, after] of [
      [{ delayMs: 0 }, /^t ready .* excused 1/],
      [{ tube: "u" }, /^u ready .* excused 1/],
      [{ tube: "t" }, /^t ready .* excused 1/],
    ] as const) {
      const traced = inState("held");
      traced.set("t", { maxAttempts: 1 });
      updated(traced, change);
      assert.match(traced.job(1), after);
    }
  });
});
