// Tests of jobs that wait for a batch and are refused by a tube of another shard.

import assert from "node:assert/strict";
import { it } from "node:test";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { JobAttributes } from "../../../../src/engine/jobs/job-attributes.ts";
import { JobState, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { Outcome } from "../../../../src/engine/jobs/outcome.ts";
import { BatchOutcome, BatchState } from "../../../../src/protocol/batch-facts.ts";
import { EngineBench } from "../engine-bench.ts";

it("jobs that wait for a batch and are refused elsewhere go on waiting in their tube", () => {
  const bench = new EngineBench();
  const { engine } = bench;
  const session = bench.session(0, "t", "t");
  const facts = {
    number: 100,
    name: "b",
    keepMs: 0,
    openedAtMs: 0,
    completeAtMs: 0,
    allDone: 0,
    allFailed: 0,
  };
  engine.batches.assume({ ...facts, state: BatchState.Open, outcome: BatchOutcome.None });
  const attributes = new JobAttributes().clear();
  attributes.afterName = "b";
  const times = { pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
  // The first are in the slots whose numbers are those of states.
  const ids = [1, 2, 3, 4, 5, 6];
  for (const id of ids)
    assert.equal(engine.put(session, { id, ...times }, EMPTY_BODY, 0, "t", attributes), Outcome.Done);
  for (const id of ids) engine.depart(engine.find(id), id);
  for (const id of ids) {
    engine.stay(id, id, 0);
    bench.check();
    const slot = engine.find(id);
    assert.equal(engine.jobs.pageOf(slot).state[rowOf(slot)], JobState.Delayed);
  }
  engine.batches.assume({ ...facts, state: BatchState.Committed, outcome: BatchOutcome.None });
  engine.batches.assume({ ...facts, state: BatchState.Complete, outcome: BatchOutcome.Success });
  engine.workOnFlows(0);
  bench.check();
  assert.equal(engine.jobCounts[JobState.Ready], ids.length);
});
