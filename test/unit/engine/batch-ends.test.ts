// Tests of the pass that removes the members of cancelled batches.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Memory } from "../../../src/base/bytes.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { Outcome } from "../../../src/engine/jobs/ends.ts";
import { JobState, NO_SLOT } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../src/engine/jobs/new-job.ts";
import type { Session } from "../../../src/engine/state/session.ts";
import { ATTRIBUTE_BYTES_MAX, AttributeWriter } from "../../../src/protocol/job-attribute.ts";
import { BatchOutcome, BatchState } from "../../../src/schema/batch.ts";
import { fixedCounters } from "../../../src/schema/job.ts";
import { EngineBench } from "./engine-bench.ts";

/** Number of ids that a turn looks at: TURN_JOBS_MAX * LOOKS_PER_JOB in engine.ts. */
const TURN_LOOKS = 500;

class SweepBench {
  readonly bench: EngineBench = new EngineBench();
  readonly #session: Session = this.bench.session(0, "t", "t");
  #lastId = 0;

  assume(number: number, state: BatchState): void {
    this.bench.engine.batchEnds.assume({
      ...{ number, name: `b${number}`, state, outcome: BatchOutcome.None },
      ...{ keepMs: 0, openedAtMs: 0, completeAtMs: 0, allDone: 0, allFailed: 0 },
    });
  }

  /** Puts a job, as a member of a batch; returns its id. */
  put(batch?: number): number {
    const id = ++this.#lastId;
    const attributes = new JobAttributes().clear();
    if (batch !== undefined) attributes.batchName = `b${batch}`;
    const job = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
    const outcome = this.bench.engine.put(this.#session, job, EMPTY_BODY, 0, "t", attributes);
    assert.equal(outcome, Outcome.Done);
    return id;
  }

  reserve(id: number): void {
    assert.equal(this.bench.engine.reserveJob(this.#session, id, 0), Outcome.Done);
  }

  release(id: number): void {
    assert.equal(this.bench.release(this.#session, id), "done");
  }

  /** The attributes of a job as its records have them. */
  logged(id: number): JobAttributes {
    const writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
    this.bench.engine.policies.attributes.writeMutable(this.bench.engine.find(id), writer, 0);
    return new JobAttributes().read(writer.bytes, 0, writer.length, 0);
  }

  /** Restores job 1 as ready. */
  restore(attributes: JobAttributes): void {
    this.bench.engine.restore(
      {
        ...{ id: 1, tube: "t", pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0 },
        ...{ atMs: 0, state: JobState.Ready, deadlineAtMs: 0, file: 0 },
        counters: fixedCounters({ reserves: 1 }),
      },
      EMPTY_BODY,
      attributes,
    );
    this.bench.engine.endRestore();
  }

  has(id: number): boolean {
    return this.bench.engine.find(id) !== NO_SLOT;
  }

  /** Works until nothing is left; returns the number of turns. */
  sweep(): number {
    let turns = 0;
    for (; this.bench.engine.batchEnds.hasWork; turns++) this.bench.engine.batchEnds.work(0);
    this.bench.check();
    return turns;
  }
}

describe("the pass that removes the members of cancelled batches", () => {
  it("is one for many batches whose members are held, not one for each", () => {
    const sweep = new SweepBench();
    const jobs = 5000;
    const batches = 100;
    for (let n = 0; n < jobs; n++) sweep.put();
    const free: number[] = [];
    for (let number = 1; number <= batches; number++) {
      sweep.assume(number, BatchState.Open);
      sweep.reserve(sweep.put(number));
      free.push(sweep.put(number));
    }
    for (let number = 1; number <= batches; number++) sweep.assume(number, BatchState.Cancelled);
    const turns = sweep.sweep();
    assert.ok(turns <= Math.ceil((jobs + 2 * batches) / TURN_LOOKS) + 2, `${turns} turns`);
    assert.ok(free.every((id) => !sweep.has(id)));
    assert.equal(sweep.bench.engine.batches.of(1)!.open, 1);
  });

  it("comes again for a batch that is cancelled while it is under way", () => {
    const sweep = new SweepBench();
    for (const number of [1, 2]) sweep.assume(number, BatchState.Open);
    const early = sweep.put(2);
    sweep.reserve(sweep.put(1));
    for (let n = 0; n < 2 * TURN_LOOKS; n++) sweep.put();
    sweep.assume(1, BatchState.Cancelled);
    sweep.bench.engine.batchEnds.work(0);
    assert.ok(sweep.bench.engine.batchEnds.hasWork);
    sweep.assume(2, BatchState.Cancelled);
    sweep.sweep();
    assert.ok(!sweep.has(early));
  });

  it("leaves a member that was held at the cancel, whatever became of it before the pass", () => {
    for (const ends of ["held", "released", "restarted"]) {
      const sweep = new SweepBench();
      sweep.assume(1, BatchState.Open);
      const held = sweep.put(1);
      const free = sweep.put(1);
      sweep.reserve(held);
      sweep.assume(1, BatchState.Cancelled);
      if (ends === "released") sweep.release(held);
      if (ends !== "restarted") {
        sweep.sweep();
        assert.deepEqual([sweep.has(held), sweep.has(free)], [true, false], ends);
        continue;
      }
      const after = new SweepBench();
      after.assume(1, BatchState.Cancelled);
      after.restore(sweep.logged(held));
      after.sweep();
      assert.ok(after.has(held), ends);
    }
  });

  it("leaves a member that a worker took after the cancel, before the pass", () => {
    const sweep = new SweepBench();
    sweep.assume(1, BatchState.Open);
    const late = sweep.put(1);
    sweep.assume(1, BatchState.Cancelled);
    assert.ok(!sweep.logged(late).batchIsSpared);
    sweep.reserve(late);
    sweep.sweep();
    assert.ok(sweep.logged(late).batchIsSpared);
    sweep.release(late);
    assert.ok(sweep.has(late));
  });

  it("leaves a member that was held when the pass for its batch came by", () => {
    const sweep = new SweepBench();
    for (const number of [1, 2]) sweep.assume(number, BatchState.Open);
    const held = sweep.put(1);
    const free = sweep.put(2);
    sweep.reserve(held);
    sweep.assume(1, BatchState.Cancelled);
    sweep.sweep();
    sweep.release(held);
    sweep.assume(2, BatchState.Cancelled);
    sweep.sweep();
    assert.deepEqual([sweep.has(held), sweep.has(free)], [true, false]);
  });

  it("leaves it after a restart, too, and removes a member that a log of older servers has", () => {
    const before = new SweepBench();
    before.assume(1, BatchState.Open);
    const held = before.put(1);
    before.reserve(held);
    const open = before.logged(held);
    before.assume(1, BatchState.Cancelled);
    before.sweep();
    for (const [attributes, stays] of [
      [before.logged(held), true],
      [open, false],
    ] as const) {
      const after = new SweepBench();
      after.assume(1, BatchState.Cancelled);
      after.restore(attributes);
      after.sweep();
      assert.equal(after.has(1), stays);
    }
  });
});
