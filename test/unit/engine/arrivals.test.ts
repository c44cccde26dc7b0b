// Tests of jobs that come from other shards: in which state, what is refused, and what a job takes
// along that leaves.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { JobAttributes } from "../../../src/engine/jobs/job-attributes.ts";
import { JobState } from "../../../src/engine/jobs/job-table.ts";
import type { JobChange } from "../../../src/engine/jobs/new-job.ts";
import { type Arrival, Travel } from "../../../src/engine/transfer/job-travel.ts";
import { DeathReason } from "../../../src/protocol/job-attribute.ts";
import { TracedEngine } from "./traced-engine.ts";

const DEAD: Partial<JobAttributes> = { reason: DeathReason.Attempts, origin: Buffer.from("home") };

interface Coming extends Partial<Arrival> {
  readonly state?: JobState;
  readonly attributes?: Partial<JobAttributes>;
}

function arrive(traced: TracedEngine, { state = JobState.Ready, attributes, ...arrival }: Coming): string {
  const job = { id: 1, pri: 4, delaySeconds: 6, ttrSeconds: 65, bodyBytes: 8, atMs: 0, tube: "t" };
  const counts = { reserves: 9, timeouts: 1, releases: 2, buries: 3, kicks: 4, file: 5 };
  const all = attributes === undefined ? undefined : Object.assign(new JobAttributes().clear(), attributes);
  const how = { travel: Travel.Move, asReady: false, delayMs: undefined, ...arrival };
  return traced.does((engine, nowMs) =>
    engine.arrive(
      { ...job, ...counts, state, deadlineAtMs: 7000 },
      engine.bodies.allocate(8),
      all,
      how,
      nowMs,
    ),
  );
}

const { Ready, Delayed, Buried } = JobState;
/** What is said at 1000 ms; whether the job is dead; and the job. */
// biome-ignore format: a table
const ROWS: readonly (readonly [name: string, coming: Coming, after: string])[] = [
  ["ready", {}, "done: updated 1 | alive | t ready pri 4 delay 6 ttr 5 reserves 9 timeouts 1 releases 2 buries 3 kicks 4 at 1000 bytes 8 | movedIn 1"],
  ["delayed", { state: Delayed }, "done: updated 1 | alive | t delayed pri 4 delay 6 ttr 5 reserves 9 timeouts 1 releases 2 buries 3 kicks 4 at 7000 bytes 8 | movedIn 1"],
  ["buried", { state: Buried }, "done: updated 1 | alive | t buried pri 4 delay 6 ttr 5 reserves 9 timeouts 1 releases 2 buries 3 kicks 4 at 1000 bytes 8 | movedIn 1"],
  ["as ready", { state: Buried, asReady: true }, "done: updated 1 | alive | t ready pri 4 delay 6 ttr 5 reserves 9 timeouts 1 releases 2 buries 3 kicks 4 at 1000 bytes 8 | movedIn 1"],
  ["with a new delay", { state: Buried, travel: Travel.Update, delayMs: 2500 }, "done: updated 1, updated 1 | alive | t delayed pri 4 delay 2 ttr 5 reserves 9 timeouts 1 releases 2 buries 3 kicks 4 at 3500 bytes 8 | movedIn 1"],
  ["without a delay", { state: Delayed, travel: Travel.Update, delayMs: 0 }, "done: updated 1, updated 1 | alive | t ready pri 4 ttr 5 reserves 9 timeouts 1 releases 2 buries 3 kicks 4 at 1000 bytes 8 | movedIn 1"],
  ["dead, with a move", { state: Buried, attributes: DEAD }, "done: updated 1 | alive | t ready pri 4 delay 6 ttr 5 reserves 9 timeouts 1 releases 2 buries 3 kicks 4 at 1000 excused 9 bytes 8 | movedIn 1"],
  ["dead, from its holder", { state: Ready, travel: Travel.Handed, attributes: DEAD }, "done: updated 1 | dead | t ready pri 4 delay 6 ttr 5 reserves 9 timeouts 1 releases 2 buries 3 kicks 4 at 1000 bytes 8 | movedIn 1"],
  ["dead, to the dead-letter tube", { state: Buried, travel: Travel.Death, attributes: DEAD }, "done: updated 1 | dead | t ready pri 4 delay 6 ttr 5 reserves 9 timeouts 1 releases 2 buries 3 kicks 4 at 1000 bytes 8 | movedIn 1"],
  ["with a time to live", { attributes: { expiresAtMs: 5000, attemptsBase: 2 } }, "done: updated 1 | alive | t ready pri 4 delay 6 ttr 5 reserves 9 timeouts 1 releases 2 buries 3 kicks 4 at 1000 excused 2 expires 5000 bytes 8 | movedIn 1"],
  ["with a time to live that is over", { attributes: { expiresAtMs: 500 } }, "done: updated 1, deleted 1 | alive | gone | expired 1 movedIn 1"],
];

describe("a job from another shard comes", () => {
  for (const [name, coming, after] of ROWS)
    it(name, () => {
      const traced = new TracedEngine();
      traced.session(0);
      traced.wait(1000);
      const said = arrive(traced, coming);
      const isDead = traced.job(1) !== "gone" && traced.engine.policies.deaths.isDead(traced.engine.find(1));
      assert.equal(`${said} | ${isDead ? "dead" : "alive"} | ${traced.job(1)} | ${traced.tube("t")}`, after);
    });

  it("not into a full tube, unless it has died", () => {
    const traced = new TracedEngine();
    traced.set("t", { maxBytes: 7 });
    assert.equal(arrive(traced, {}), "tubefull");
    assert.deepEqual([traced.job(1), traced.tube("t")], ["gone", "none"]);
    assert.match(arrive(traced, { travel: Travel.Death, attributes: DEAD }), /^done/);
  });

  it("back before this shard has heard that it arrived", () => {
    const traced = new TracedEngine();
    traced.session(0);
    traced.put(1, { tube: "u" });
    traced.engine.depart(traced.engine.find(1), 7);
    assert.equal(arrive(traced, {}), "done: updated 1");
    assert.deepEqual([traced.tube("u"), traced.engine.jobs.live], ["none", 1]);
    traced.engine.departed(1, 7, 0);
    assert.match(traced.job(1), /^t ready/, "it is too late for that transfer");
    traced.engine.depart(traced.engine.find(1), 8);
    traced.engine.stay(1, 7, 0);
    assert.match(traced.job(1), /^t moving/);
    assert.ok(traced.engine.isMoving(1));
    traced.engine.stay(1, 8, 0);
    assert.match(traced.job(1), /^t ready/);
    assert.ok(!traced.engine.isMoving(1) && !traced.engine.isMoving(2));
  });

  it("to a client that waits", () => {
    const traced = new TracedEngine();
    traced.engine.reserve(traced.session(1, "t"), 1e6, 0);
    assert.equal(arrive(traced, {}), "done: updated 1, waited 0, 1: gets 1");
  });
});

const NO_CHANGE: JobChange = { pri: undefined, ttrSeconds: undefined, delayMs: undefined };

it("a job that leaves takes its changes along", () => {
  for (const [held, change, facts] of [
    [false, {}, [4, 65, 0, 5000, 0]],
    [true, {}, [4, 65, 1, 5000, 1]],
    [true, { pri: 7, ttrSeconds: 9, ttlMs: 0 }, [7, 9, 1, 0, 1]],
    [false, { ttlMs: 300 }, [4, 65, 0, 1300, 0]],
  ] as const) {
    const traced = new TracedEngine();
    traced.session(0);
    traced.set("t", { maxAttempts: 3 });
    traced.put(1, { pri: 4, ttrSeconds: 65 }, { expiresAtMs: 5000 });
    if (held) traced.hold(1);
    traced.wait(1000);
    const changed = traced.engine.changedFacts(
      traced.engine.find(1),
      { ...NO_CHANGE, ...change },
      traced.nowMs,
    );
    const { pri, ttrSeconds, releases, expiresAtMs, attemptsBase } = changed;
    assert.deepEqual([pri, ttrSeconds, releases, expiresAtMs, attemptsBase], facts);
  }
});

/** What is said when the other shard does not take a job, and when it does; the job after the first. */
// biome-ignore format: a table
const LEAVING: readonly (readonly [state: string, stays: string, leaves: string])[] = [
  ["ready", "undefined | t ready at 1500 | totalJobs 1", "undefined | gone | totalJobs 1 movedOut 1"],
  ["delayed", "undefined | t delayed delay 9 at 9000 | totalJobs 1", "undefined | gone | totalJobs 1 movedOut 1"],
  ["held", "undefined | t reserved reserves 1 at 60000 | totalJobs 1 reserves 1", "undefined: held 1500 | gone | totalJobs 1 reserves 1 releases 1 movedOut 1"],
  ["orphaned", "undefined | t ready reserves 1 at 1500 | totalJobs 1 reserves 1", "undefined: held 1500 | gone | none"],
  ["buried", "undefined: updated 1 | t buried reserves 1 buries 1 at 1500 | totalJobs 1 reserves 1 buries 1", "undefined | gone | totalJobs 1 reserves 1 buries 1 movedOut 1"],
];

describe("a job that is on its way from here", () => {
  for (const [state, stays, leaves] of LEAVING)
    it(state, () => {
      const departing = (): TracedEngine => {
        const traced = new TracedEngine();
        const session = traced.session(0);
        traced.put(1, { delaySeconds: state === "delayed" ? 9 : 0 });
        if (!["ready", "delayed"].includes(state)) traced.hold(1);
        if (state === "buried") traced.engine.bury(session, 1, 0, 0);
        traced.wait(1000);
        traced.engine.depart(traced.engine.find(1), 7, 1000);
        if (state === "orphaned") traced.close(session);
        traced.wait(500);
        return traced;
      };
      const back = departing();
      assert.equal(
        `${back.does((engine, nowMs) => engine.stay(1, 7, nowMs))} | ${back.job(1)} | ${back.tube("t")}`,
        stays,
      );
      const gone = departing();
      assert.equal(
        `${gone.does((engine, nowMs) => engine.departed(1, 7, nowMs))} | ${gone.job(1)} | ${gone.tube("t")}`,
        leaves,
      );
    });
});
