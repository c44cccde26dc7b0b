// Applies the end of batches to the jobs of this shard, a few at a time. Jobs that waited for a
// batch become ready or are buried; members of a cancelled batch are removed.

import { assert } from "../base/assert.ts";
import { type BatchFacts, BatchState } from "../schema/batch.ts";
import { ENDS } from "./jobs/ends.ts";
import type { IndexPlace } from "./jobs/job-index.ts";
import { FlowFlag, JobState, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import { NOBODY } from "./policies/failures.ts";
import { isLostAfter, reasonOf, spanOf } from "./policies/policies.ts";
import type { QueueCore } from "./queue-core.ts";
import type { BatchRow } from "./state/batch-table.ts";

/** Number of jobs that a turn may change. */
const TURN_JOBS_MAX = 100;
/** Number of ids that a slice may examine for each job that it may change. */
const LOOKS_PER_JOB = 5;

export class BatchEnds {
  readonly #core: QueueCore;
  readonly #place: IndexPlace = { id: 0, looksLeft: 0 };
  /** The last id of the pass under way. */
  #sweptUpTo = 0;

  constructor(core: QueueCore) {
    this.#core = core;
  }

  /** Whether jobs of this shard are affected by the end of a batch. */
  get hasWork(): boolean {
    const { releasing, sweeping, toSweep } = this.#core.batches;
    return releasing.size > 0 || sweeping.size > 0 || toSweep.size > 0;
  }

  /** Changes some of these jobs. */
  work(nowMs: number): void {
    this.#core.runDue(nowMs);
    let left = TURN_JOBS_MAX;
    for (const batch of this.#core.batches.releasing) {
      for (; left > 0 && batch.waiting.first !== NO_SLOT; left--)
        this.#release(batch.waiting.first, batch, nowMs);
      if (batch.waiting.first !== NO_SLOT) return;
      this.#core.batches.releasing.delete(batch);
    }
    if (left > 0) this.#sweep(left, nowMs);
  }

  /**
   * Takes over what the home of a batch has decided; returns the batch, if it still exists. Members
   * that workers hold when it is cancelled outlive it, and the log has that before the client gets
   * its answer: a restart may come before the pass does, and then nobody holds them any more.
   */
  assume(facts: Readonly<BatchFacts>): BatchRow | undefined {
    const before = this.#core.batches.of(facts.number)?.state;
    const batch = this.#core.batches.assume(facts);
    if (batch?.state === BatchState.Cancelled && batch.state !== before) this.#spareHeld(batch);
    return batch;
  }

  #spareHeld({ open }: BatchRow): void {
    let left = open === 0 ? 0 : this.#core.queues.counts[JobState.Reserved]!;
    this.#core.looks += left;
    for (let index = 0; left > 0; index++) {
      assert(index < this.#core.sessions.length, "a reserved job has a session");
      const held = this.#core.sessions[index]?.heldInOrder;
      if (held === undefined) continue;
      for (let slot = held.first; slot !== NO_SLOT; slot = held.behind(slot), left--)
        if (this.#core.batches.spare(slot)) this.#core.records?.updated(slot);
    }
  }

  /** Ends the wait of a job as the outcome of its batch says. */
  #release(slot: number, batch: BatchRow, nowMs: number): void {
    assert(batch.state === BatchState.Complete, "a job waits until its batch is complete");
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    const flows = page.extras?.flows;
    assert(flows?.after[row] === batch.number, "a job is released by the batch that it waits for");
    const tube = this.#core.tubeOf(slot);
    this.#core.queues.leave(slot);
    flows.after[row] = 0;
    if (isLostAfter(batch, (flows.flags[row]! & FlowFlag.Any) !== 0)) {
      this.#core.batches.counts.buried++;
      this.#core.policies.failures.add(slot, ENDS.Buried.failure, NOBODY, nowMs, spanOf(reasonOf(batch)));
      this.#core.countBury(slot, tube);
      this.#core.queues.becomeBuried(slot, tube, nowMs);
      this.#core.records?.updated(slot);
      return;
    }
    this.#core.batches.counts.released++;
    const delayMs = page.delaySeconds[row]! * 1000;
    if (delayMs > 0) this.#core.queues.becomeDelayed(slot, tube, nowMs + delayMs);
    else this.#core.queues.becomeReady(slot, tube, nowMs);
    this.#core.records?.updated(slot);
    this.#core.runDueAndServe(tube, nowMs);
  }

  /**
   * Removes the unreserved members of cancelled batches. One pass over the jobs serves all batches:
   * a pass for each would take minutes if many are cancelled on a shard with many jobs.
   */
  #sweep(jobsMax: number, nowMs: number): void {
    const { sweeping } = this.#core.batches;
    const place = this.#place;
    if (sweeping.size === 0) {
      if (!this.#core.batches.beginSweep()) return;
      place.id = 0;
      this.#sweptUpTo = this.#core.index.highestId;
    }
    place.looksLeft = jobsMax * LOOKS_PER_JOB;
    for (let left = jobsMax; left > 0 && sweeping.size > 0; ) {
      const slot = this.#core.index.next(place, this.#sweptUpTo);
      assert(place.looksLeft >= 0 && place.id <= this.#sweptUpTo, "a pass keeps to its ids and its budget");
      if (slot === NO_SLOT) break;
      const batch = this.#sweptBatch(slot);
      if (batch === undefined) continue;
      if (this.#stays(slot)) continue;
      this.#core.discard(slot, ENDS.BatchCancelled, nowMs);
      if (batch.open === 0) sweeping.delete(batch);
      left--;
    }
    if (place.id >= this.#sweptUpTo) sweeping.clear();
  }

  /** Returns whether a member outlives its batch: a worker took it since, or it is in transit. */
  #stays(slot: number): boolean {
    const state = this.#core.jobs.pageOf(slot).state[rowOf(slot)];
    if (state === JobState.Reserved && this.#core.batches.spare(slot)) this.#core.records?.updated(slot);
    // A member in transit is spared by the shard where it ends up.
    return state === JobState.Reserved || state === JobState.Moving;
  }

  /** Returns the batch of a member that this pass removes, or spares because a worker has it. */
  #sweptBatch(slot: number): BatchRow | undefined {
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    const flows = page.extras?.flows;
    if (flows === undefined || flows.batch[row] === 0) return undefined;
    if ((flows.flags[row]! & (FlowFlag.Ended | FlowFlag.Spared)) !== 0) return undefined;
    const batch = this.#core.batches.of(flows.batch[row]!);
    assert(batch === undefined || batch.open > 0, "a member that has not ended is counted");
    return batch !== undefined && this.#core.batches.sweeping.has(batch) ? batch : undefined;
  }
}
