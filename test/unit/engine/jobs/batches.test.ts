// Tests of batches on one shard: what becomes of their members and of the jobs that wait for them,
// and what the shard counts of each.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { ENDS, Outcome } from "../../../../src/engine/jobs/ends.ts";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../../src/engine/jobs/new-job.ts";
import { Travel } from "../../../../src/engine/transfers.ts";
import { readFailures } from "../../../../src/protocol/job-failure.ts";
import { BatchOutcome, BatchState } from "../../../../src/schema/batch.ts";
import { fixedCounters } from "../../../../src/schema/job.ts";
import { figures, TracedEngine } from "../traced-engine.ts";

/** Batch `b<number>` is opened at `number` ms. */
class BatchBench extends TracedEngine {
  assume(number: number, state: BatchState, more: { outcome?: BatchOutcome; failed?: number } = {}): void {
    const { outcome = BatchOutcome.None, failed = 0 } = more;
    const { batches } = this.engine;
    batches.assume({
      ...{ number, name: `b${number}`, state, outcome, keepMs: 0, openedAtMs: number, completeAtMs: 0 },
      ...{ allDone: state === BatchState.Complete ? 2 : 0, allFailed: failed },
    });
  }

  open(...numbers: number[]): void {
    for (const number of numbers) this.assume(number, BatchState.Open);
  }

  complete(number: number, outcome: BatchOutcome, failed = 0): void {
    this.assume(number, BatchState.Committed);
    this.assume(number, BatchState.Complete, { outcome, failed });
  }

  works(): string {
    return this.does((engine, nowMs) => engine.batchEnds.work(nowMs)).replace(/^undefined(: )?/, "");
  }

  /** What the shard counts of a batch, and whether its home is to hear that nothing is open. */
  batch(number: number): string {
    const batch = this.engine.batches.of(number);
    if (batch === undefined) return "unknown";
    const { open, dead, moving, done, failed, buried, waitingJobs: waiting, arrivals } = batch;
    const idle = Number(this.engine.batches.idle.includes(batch));
    const counts = { open, dead, moving, done, failed, buried, waiting, arrivals, idle };
    return figures(counts).trim();
  }

  totals(): string {
    const { counts } = this.engine.batches;
    const { inState, openMembers, waiting, done, failed, released, buried } = counts;
    return `${inState.join(" ")};${figures({ openMembers, waiting, done, failed, released, buried })}`;
  }

  /** Why the job failed last. */
  reason(id: number): string {
    const [last] = readFailures(this.engine.policies.failures.of(this.engine.find(id)));
    return last === undefined ? "" : `${last.cause}, attempt ${last.attempt}: ${last.reason}`;
  }
}

const { Success, Failure, Cancelled } = BatchOutcome;

/** What becomes of job 1, which waits for batch 100; why, if it is buried; and the totals. */
// biome-ignore format: a table
const WAIT_ENDS: readonly (readonly [outcome: BatchOutcome, any: boolean, delaySeconds: number, after: string])[] = [
  [Success, false, 0, "updated 1 | t ready at 1000 |  | 0 0 0 0 1; released 1"],
  [Success, false, 3, "updated 1 | t delayed delay 3 at 4000 |  | 0 0 0 0 1; released 1"],
  [Failure, false, 3, "updated 1 | t buried delay 3 buries 1 at 1000 | buried, attempt 0: batch b100: 1 of 3 members failed | 0 0 0 0 1; buried 1"],
  [Failure, true, 0, "updated 1 | t ready at 1000 |  | 0 0 0 0 1; released 1"],
  [Cancelled, false, 0, "updated 1 | t buried buries 1 at 1000 | buried, attempt 0: batch b100: cancelled | 0 0 0 0 1; buried 1"],
  [Cancelled, true, 3, "updated 1 | t delayed delay 3 at 4000 |  | 0 0 0 0 1; released 1"],
];

describe("a job that waits for a batch", () => {
  for (const [outcome, afterAny, delaySeconds, after] of WAIT_ENDS) {
    const attributes = { afterName: "b100", afterAny };
    it(`of outcome ${outcome}${afterAny ? ", whatever it is," : ""} has its turn, its delay or its end`, () => {
      const bench = new BatchBench();
      bench.session(0);
      bench.open(100);
      assert.equal(bench.put(1, { delaySeconds }, attributes), "done: put 1, stored 0");
      assert.match(bench.job(1), /^t delayed/);
      bench.wait(1000);
      bench.complete(100, outcome, 1);
      assert.ok(bench.engine.batchEnds.hasWork);
      assert.equal(`${bench.works()} | ${bench.job(1)} | ${bench.reason(1)} | ${bench.totals()}`, after);
      assert.ok(!bench.engine.batchEnds.hasWork);
    });

    it(`of outcome ${outcome}${afterAny ? ", whatever it is," : ""} has the same if it comes late`, () => {
      const bench = new BatchBench();
      bench.session(0);
      bench.open(100);
      bench.complete(100, outcome, 1);
      bench.put(1, { delaySeconds }, attributes);
      const [, , reason] = after.split(" | ");
      assert.equal(bench.reason(1), reason);
      const state = reason !== "" ? "buried" : delaySeconds > 0 ? "delayed" : "ready";
      assert.ok(bench.job(1).startsWith(`t ${state}`), bench.job(1));
      assert.ok(!bench.engine.batches.waits(bench.engine.find(1)));
    });
  }

  it("is given to nobody before, whatever a client tries", () => {
    const bench = new BatchBench();
    const session = bench.session(0);
    bench.open(1);
    bench.put(1, {}, { afterName: "b1" });
    assert.equal(bench.engine.kickJob(1, 0), Outcome.NotFound);
    assert.equal(bench.engine.kick(session, 5, 0), 0);
    assert.equal(bench.hold(1), "notfound");
    const change = { pri: 2, ttrSeconds: undefined, delayMs: 5000 };
    assert.equal(
      bench.does((engine) => engine.changes.update(session, 1, change, 0)),
      "done: updated 1",
    );
    assert.equal(bench.wait(6000), "");
    assert.match(bench.job(1), /^t delayed pri 2 delay 5/);
    bench.engine.changes.move(bench.engine.find(1), "u", true, bench.nowMs);
    assert.match(bench.job(1), /^u delayed/);
    assert.equal(bench.batch(1), "waiting 1");
    bench.engine.delete(session, 1, bench.nowMs);
    assert.equal(bench.batch(1), "");
  });

  it("goes on waiting in its tube if another shard refuses it", () => {
    const bench = new BatchBench();
    bench.session(0);
    bench.open(100);
    // The first are in the slots whose numbers are those of states.
    const ids = [1, 2, 3, 4, 5, 6];
    for (const id of ids) bench.put(id, {}, { afterName: "b100" });
    for (const id of ids) bench.engine.transfers.depart(bench.engine.find(id), id, 0);
    for (const id of ids) bench.does((engine) => engine.transfers.stay(id, id, 0));
    for (const id of ids) assert.match(bench.job(id), /^t delayed/);
    bench.complete(100, Success);
    bench.works();
    assert.equal(bench.engine.jobCounts[JobState.Ready], ids.length);
  });

  it("is one of a hundred that a turn changes", () => {
    const bench = new BatchBench();
    bench.open(100);
    const session = bench.session(0);
    const attributes = Object.assign(new JobAttributes().clear(), { afterName: "b100" });
    for (let id = 1; id <= 250; id++) bench.engine.put(session, jobOf(id), EMPTY_BODY, 0, "t", attributes);
    bench.complete(100, Success);
    const ready = [100, 200, 250];
    for (const count of ready) {
      bench.works();
      assert.equal(bench.engine.jobCounts[JobState.Ready], count);
      assert.equal(bench.engine.batchEnds.hasWork, count < 250);
    }
  });

  it("is buried at a start if the log doesn't have the batch", () => {
    const bench = new BatchBench();
    bench.open(100);
    for (const [id, batch, after] of [
      [1, 0, 7],
      [2, 7, 0],
      [3, 100, 0],
      [4, 0, 100],
    ] as const) {
      const attributes = Object.assign(new JobAttributes().clear(), { batch, after });
      const counts = { counters: Uint32Array.of(1, 2, 3, 4, 5), file: 6 };
      const state = { tube: "t", state: id === 4 ? JobState.Delayed : JobState.Ready, deadlineAtMs: 0 };
      bench.engine.restore({ ...jobOf(id), ...counts, ...state }, EMPTY_BODY, attributes);
    }
    bench.engine.endRestore();
    bench.take();
    const states = [1, 2, 3, 4].map((id) => bench.job(id).split(" ")[1]);
    assert.deepEqual(states, ["buried", "ready", "ready", "delayed"]);
    assert.equal(bench.job(2), "t ready reserves 1 timeouts 2 releases 3 buries 4 kicks 5");
    assert.equal(bench.batch(100), "open 1 waiting 1");
    const logged = bench.logged(2);
    assert.deepEqual([logged.batch, bench.logged(1).after, bench.logged(3).batch], [0, 0, 100]);
  });
});

const jobOf = (id: number) => ({
  ...{ id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 },
});

it("a put is refused by batches that don't take it", () => {
  const bench = new BatchBench();
  bench.session(0);
  bench.assume(50, BatchState.Opening);
  bench.open(100, 101, 102);
  bench.assume(102, BatchState.Committed);
  for (const [batchName, afterName, outcome] of [
    ["b9", "", "nobatch"],
    ["", "b9", "nobatch"],
    ["b50", "", "nobatch"],
    ["", "b50", "nobatch"],
    ["b102", "", "batchcommitted"],
    ["b100", "b100", "batchorder"],
    ["b100", "b101", "batchorder"],
  ] as const)
    assert.equal(bench.put(1, {}, { batchName, afterName }), outcome, `${batchName} ${afterName}`);
  assert.equal(bench.put(1, {}, { batchName: "b101", afterName: "b100" }), "done: put 1, stored 0");
  assert.deepEqual([bench.batch(100), bench.batch(101), bench.batch(50)], ["waiting 1", "open 1", ""]);
});

/** What a member's end says, and what its batch counts: after it, and once it is committed. */
// biome-ignore format: a table
const MEMBER_ENDS: readonly (readonly [name: string, end: (bench: BatchBench) => string, after: string])[] = [
  ["deleted by its holder", (bench) => { bench.hold(1); return bench.does((engine) => engine.delete(engine.session(0), 1, 0)); }, "done: held 0, ended 1 of batch 100, 1 done, 0 failed | done 1 | 0 0 1 0 0; done 1"],
  ["deleted by another", (bench) => bench.does((engine) => engine.delete(engine.session(0), 1, 0)), "done: ended 1 of batch 100, 0 done, 1 failed | failed 1 | 0 0 1 0 0; failed 1"],
  ["discarded", (bench) => bench.does((engine) => engine.discard(engine.find(1), ENDS.Cleared, 0)), "undefined: ended 1 of batch 100, 0 done, 1 failed | failed 1 | 0 0 1 0 0; failed 1"],
  ["buried", (bench) => { bench.hold(1); return bench.does((engine) => engine.bury(engine.session(0), 1, 0, 0)); }, "done: held 0, updated 1 | open 1 buried 1 | 0 0 1 0 0; openMembers 1"],
  ["buried and deleted", (bench) => { bench.hold(1); bench.does((engine) => engine.bury(engine.session(0), 1, 0, 0)); return bench.does((engine) => engine.delete(engine.session(0), 1, 0)); }, "done: ended 1 of batch 100, 0 done, 1 failed | failed 1 | 0 0 1 0 0; failed 1"],
  ["buried and kicked", (bench) => { bench.hold(1); bench.does((engine) => engine.bury(engine.session(0), 1, 0, 0)); return bench.does((engine) => engine.kickJob(1, 0)); }, "done: updated 1 | open 1 | 0 0 1 0 0; openMembers 1"],
  ["dead", (bench) => { bench.set("t", { maxAttempts: 1 }); bench.hold(1); return bench.does((engine) => engine.release(engine.session(0), 1, 0, 0, 0)); }, "done: held 0, updated 1 | dead 1 | 0 0 1 0 0; failed 1"],
  ["dead and deleted", (bench) => { bench.set("t", { maxAttempts: 1 }); bench.hold(1); bench.does((engine) => engine.release(engine.session(0), 1, 0, 0, 0)); return bench.does((engine) => engine.delete(engine.session(0), 1, 0)); }, "done: ended 1 of batch 100, 0 done, 1 failed | failed 1 | 0 0 1 0 0; failed 1"],
  ["expired", (bench) => { bench.engine.changes.update(bench.session(0), 1, { pri: undefined, ttrSeconds: undefined, delayMs: undefined, ttlMs: 5 }, 0); return bench.wait(5); }, "updated 1, ended 1 of batch 100, 0 done, 1 failed | failed 1 | 0 0 1 0 0; failed 1"],
  ["on its way", (bench) => bench.does((engine) => engine.transfers.depart(engine.find(1), 7, 0)), "undefined | open 1 moving 1 | 0 0 1 0 0; openMembers 1"],
  ["gone elsewhere", (bench) => { bench.engine.transfers.depart(bench.engine.find(1), 7, 0); return bench.does((engine) => engine.transfers.departed(1, 7, 0)); }, "undefined |  | 0 0 1 0 0;"],
  ["back after all", (bench) => { bench.engine.transfers.depart(bench.engine.find(1), 7, 0); return bench.does((engine) => engine.transfers.stay(1, 7, 0)); }, "undefined | open 1 | 0 0 1 0 0; openMembers 1"],
];

describe("a member of a batch that is", () => {
  for (const [name, end, after] of MEMBER_ENDS)
    it(name, () => {
      const bench = new BatchBench();
      bench.session(0);
      bench.open(100);
      bench.put(1, {}, { batchName: "b100" });
      assert.equal(bench.batch(100), "open 1");
      const said = `${end(bench)} | ${bench.batch(100)}`;
      bench.assume(100, BatchState.Committed);
      assert.equal(`${said} | ${bench.totals()}`, after);
    });
});

it("the home of a batch hears when its last member has ended, and none is on its way", () => {
  for (const last of ["delete", "depart"]) {
    const bench = new BatchBench();
    const session = bench.session(0);
    bench.open(100);
    for (const id of [1, 2]) bench.put(id, {}, { batchName: "b100" });
    bench.put(3, {}, { afterName: "b100" });
    bench.engine.delete(session, 1, 0);
    bench.assume(100, BatchState.Committed);
    bench.engine.batches.hasNews = false;
    if (last === "depart") {
      bench.engine.transfers.depart(bench.engine.find(2), 7, 0);
      bench.engine.transfers.depart(bench.engine.find(3), 8, 0);
      bench.engine.transfers.departed(2, 7, 0);
      assert.equal(bench.batch(100), "moving 1 failed 1");
      assert.ok(!bench.engine.batches.hasNews);
      bench.engine.transfers.departed(3, 8, 0);
    } else bench.engine.delete(session, 2, 0);
    assert.match(bench.batch(100), / idle 1$/);
    assert.ok(bench.engine.batches.hasNews);
  }
});

it("members and waiting jobs that come from other shards are counted as such", () => {
  const bench = new BatchBench();
  bench.open(100, 101);
  const counts = { counters: fixedCounters(), file: 0 };
  for (const [id, facts] of [
    [1, { batch: 100, after: 0, batchHasEnded: false }],
    [2, { batch: 101, after: 100, batchHasEnded: false }],
    [3, { batch: 100, after: 0, batchHasEnded: true }],
  ] as const) {
    const attributes = Object.assign(new JobAttributes().clear(), facts);
    const job = { ...jobOf(id), ...counts, tube: "t", state: JobState.Ready, deadlineAtMs: 0 };
    const arrival = { travel: Travel.Move, asReady: false, delayMs: undefined };
    bench.does((engine) => engine.transfers.arrive(job, EMPTY_BODY, attributes, arrival, 0));
  }
  assert.deepEqual(
    [bench.batch(100), bench.batch(101)],
    ["open 1 dead 1 waiting 1 arrivals 3", "open 1 arrivals 1"],
  );
  assert.match(bench.job(2), /^t delayed/);
});

it("a shard sums up its batches", () => {
  const bench = new BatchBench();
  const { counts } = bench.engine.batches;
  const sums = (): string => `${bench.totals()} ${counts.openSinceMs} ${counts.unfinishedSinceMs}`;
  bench.assume(50, BatchState.Opening);
  assert.equal(sums(), "0 0 0 0 0; Infinity Infinity");
  bench.open(100, 101, 102);
  assert.equal(sums(), "0 3 0 0 0; 100 100");
  bench.assume(100, BatchState.Committed);
  assert.equal(sums(), "0 2 1 0 0; 101 100");
  bench.assume(101, BatchState.Cancelled);
  assert.equal(sums(), "0 1 1 1 0; 102 100");
  bench.assume(100, BatchState.Complete);
  assert.equal(sums(), "0 1 0 1 1; 102 101");
  bench.session(0);
  bench.put(1, {}, { batchName: "b102" });
  for (const number of [100, 101, 102]) bench.assume(number, BatchState.Forgotten);
  assert.equal(sums(), "0 0 0 0 0; Infinity Infinity");
  assert.equal(bench.engine.batches.size, 1);
  bench.assume(9, BatchState.Forgotten);
  assert.equal(bench.engine.batches.size, 1);
});
