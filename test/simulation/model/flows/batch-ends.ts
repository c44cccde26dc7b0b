// What the end of a batch does to jobs in the model.

import assert from "node:assert/strict";
import { BatchState } from "../../../../src/schema/batch.ts";
import { waits } from "../job-order.ts";
import type { ModelCommands } from "../model-commands.ts";
import type { ModelLog } from "../model-log.ts";
import type { ModelQueues } from "../model-queues.ts";
import type { ModelState } from "../model-state.ts";
import type { ModelTimers } from "../model-timers.ts";
import type { ModelWaits } from "../model-waits.ts";
import { isLost, type ModelFlows, reasonOf } from "./model-flows.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly flows: ModelFlows;
  readonly log: ModelLog;
  readonly timers: ModelTimers;
  readonly waiting: ModelWaits;
  readonly queues: ModelQueues;
  readonly commands: ModelCommands;
}

export class BatchEnds {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  /** Ends the wait of some jobs in this order, and sweeps members of cancelled batches. */
  work(
    shard: number,
    waiting: readonly number[],
    swept: readonly number[],
    spared: readonly number[],
    nowMs: number,
  ): void {
    this.#model.timers.runDue(shard, nowMs);
    for (const id of waiting) this.#release(shard, id, nowMs);
    for (const id of spared) {
      const job = this.#model.queues.on(shard, id);
      if (job === undefined) continue;
      assert.equal(job.state, "reserved", `job ${id} outlives its batch`);
      if (this.#model.flows.spare(job)) this.#model.log.keep(job);
    }
    for (const id of swept) {
      const job = this.#model.queues.on(shard, id);
      // It may have expired just now.
      if (job === undefined) continue;
      const { policy, state } = job;
      assert.equal(
        this.#model.flows.of(shard, policy.batch)?.state,
        BatchState.Cancelled,
        `job ${id} is swept`,
      );
      assert.ok(
        !policy.hasEnded && !policy.isSpared && state !== "reserved" && state !== "moving",
        `job ${id} is swept: ${state}`,
      );
      this.#model.commands.discard(job, nowMs, "cancelled");
    }
  }

  #release(shard: number, id: number, nowMs: number): void {
    const job = this.#model.queues.on(shard, id);
    if (job === undefined || !waits(job)) return;
    const { policy, tube } = job;
    const batch = this.#model.flows.of(shard, policy.after);
    assert.equal(batch?.state, BatchState.Complete, `job ${id} waits until its batch is complete`);
    policy.after = 0;
    if (isLost(batch!, policy.afterAny)) {
      this.#model.flows.bury(job, reasonOf(batch!), nowMs);
      this.#model.log.keep(job);
      return;
    }
    if (job.delaySeconds > 0) this.#model.queues.becomeDelayed(job, nowMs);
    else this.#model.queues.becomeReady(job);
    this.#model.log.keep(job);
    this.#model.timers.runDue(shard, nowMs);
    this.#model.waiting.serve(tube, nowMs);
  }
}
