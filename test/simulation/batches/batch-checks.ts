// Compares what each shard counts of its batches with the jobs that it has, and the shards with
// each other.

import assert from "node:assert/strict";
import type { Engine } from "../../../src/engine/engine.ts";
import { FlowFlag, JobState, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { type BatchRow, WAITS_UNTIL_MS } from "../../../src/engine/state/batch-table.ts";
import { BatchState } from "../../../src/schema/batch.ts";

interface Found {
  open: number;
  dead: number;
  moving: number;
  buried: number;
  waitingJobs: number;
}

export function checkBatches(engines: readonly Engine[]): void {
  for (const [shard, engine] of engines.entries()) checkShard(engine, `shard ${shard}`);
  for (const engine of engines)
    for (const batch of engine.batches.all)
      if (batch.state === BatchState.Complete) checkComplete(batch, engines);
}

function checkShard(engine: Engine, where: string): void {
  const found = new Map<number, Found>();
  const of = (number: number): Found => {
    const known = found.get(number) ?? { open: 0, dead: 0, moving: 0, buried: 0, waitingJobs: 0 };
    found.set(number, known);
    return known;
  };
  engine.jobs.forEach((slot) => {
    const page = engine.jobs.pageOf(slot);
    const row = rowOf(slot);
    const flows = page.extras?.flows;
    if (flows === undefined) return;
    const state = page.state[row];
    const [batch, after] = [flows.batch[row]!, flows.after[row]!];
    if (batch !== 0) {
      const counts = of(batch);
      if ((flows.flags[row]! & FlowFlag.Ended) !== 0) counts.dead++;
      else {
        counts.open++;
        if (state === JobState.Buried) counts.buried++;
      }
      if (state === JobState.Moving) counts.moving++;
    }
    if (after === 0) return;
    assert.ok(state === JobState.Delayed || state === JobState.Moving, `${where}: a waiting job is delayed`);
    if (state === JobState.Moving) of(after).moving++;
    else {
      of(after).waitingJobs++;
      assert.equal(page.deadlineAtMs[row], WAITS_UNTIL_MS, `${where}: a waiting job has no deadline`);
    }
  });
  for (const batch of engine.batches.all) {
    const { open, dead, moving, buried, waitingJobs } = batch;
    assert.deepEqual(
      { open, dead, moving, buried, waitingJobs },
      of(batch.number),
      `${where}: ${batch.name}`,
    );
  }
}

/** No member of a complete batch is open anywhere, on its way even. */
function checkComplete(complete: BatchRow, engines: readonly Engine[]): void {
  for (const [shard, engine] of engines.entries()) {
    const batch = engine.batches.of(complete.number);
    assert.equal(batch?.open ?? 0, 0, `${complete.name} is complete, but shard ${shard} has a member`);
  }
}
