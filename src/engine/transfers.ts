// Transfers of jobs to and from tubes of other shards.
//
// A job that leaves stays here, in state Moving, until the other shard has it. To clients it looks
// reserved, and no timer and no end of a connection affects it. Then it is removed without a
// record, because the other shard has written one. If that shard does not take it, it returns to
// its previous state. The shard transports the jobs.

import { assert, CHECKED } from "../base/assert.ts";
import { DeathReason } from "../protocol/job-attribute.ts";
import type { JobChanges } from "./job-changes.ts";
import { ENDS, Outcome } from "./jobs/ends.ts";
import { JobState, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import type { JobAttributes, RestoredJob } from "./jobs/new-job.ts";
import type { QueueCore } from "./queue-core.ts";
import type { Tube } from "./tubes/tube.ts";

// Reasons for transfers of jobs between shards, and how the jobs arrive.

/** The reason for a transfer. */
export const Travel = {
  /** A move-jobs: a dead job revives. */
  Move: 0,
  /** The job died: it stays dead, becomes ready, and no limit refuses it. */
  Death: 1,
  /** An update-job. */
  Update: 2,
  /** An update-job by its holder: the job is returned, and stays dead. */
  Handed: 3,
} as const;
export type Travel = (typeof Travel)[keyof typeof Travel];

/** How the jobs of one transfer arrive. */
export interface Arrival {
  readonly travel: Travel;
  /** Whether they become ready, whatever their state was. */
  readonly asReady: boolean;
  /** If set, they become ready, or delayed by this time, ms. */
  readonly delayMs: number | undefined;
}

export class Transfers {
  readonly #core: QueueCore;
  readonly #changes: JobChanges;

  constructor(core: QueueCore, changes: JobChanges) {
    this.#core = core;
    this.#changes = changes;
  }

  // --- to other shards ------------------------------------------------------------------------

  /** Returns whether a job is in transit to another shard. */
  isMoving(id: number): boolean {
    if (this.#core.queues.counts[JobState.Moving] === 0) return false;
    const slot = this.#core.find(id);
    return slot !== NO_SLOT && this.#core.jobs.pageOf(slot).state[rowOf(slot)] === JobState.Moving;
  }

  /** Makes a job depart, in any state but Moving, with this transfer. */
  depart(slot: number, transfer: number, nowMs: number): void {
    assert(transfer >= 0 && transfer < 2 ** 31, "the number of a transfer fits into its column");
    const state = this.#core.jobs.pageOf(slot).state[rowOf(slot)];
    assert(state !== JobState.Moving, "a job departs once");
    this.#core.policies.keys.depart(slot, nowMs);
    this.#core.leave(slot, nowMs);
    this.#core.batches.travels(slot, 1);
    const tube = this.#core.tubeOf(slot);
    this.#core.queues.becomeMoving(slot, tube, transfer);
    this.#core.serveIfLimited(tube, nowMs);
  }

  /** Returns the state that a moving job had before. */
  stateBefore(slot: number): JobState {
    assert(
      this.#core.jobs.pageOf(slot).state[rowOf(slot)] === JobState.Moving,
      "only a job in transit has a previous state",
    );
    return this.#core.jobs.pageOf(slot).previous[rowOf(slot)] as JobState;
  }

  /** Notes that the job has arrived elsewhere, if it is still in transit with this transfer. */
  departed(id: number, transfer: number, nowMs: number): void {
    this.#core.runDue(nowMs);
    const slot = this.#travelling(id, transfer);
    if (slot !== NO_SLOT) this.#endTransfer(slot, nowMs);
  }

  /** Notes that the other shard did not take the job. */
  stay(id: number, transfer: number, nowMs: number): void {
    this.#core.runDue(nowMs);
    const slot = this.#travelling(id, transfer);
    if (slot !== NO_SLOT) this.#stay(slot, nowMs);
  }

  /**
   * Returns the slot of a job that is in transit with this transfer, or NO_SLOT. A job may have
   * returned and left again with another transfer.
   */
  #travelling(id: number, transfer: number): number {
    const slot = this.#core.find(id);
    if (slot === NO_SLOT) return NO_SLOT;
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    return page.state[row] === JobState.Moving && page.next[row] === transfer ? slot : NO_SLOT;
  }

  /** Removes a moving job that another shard now has. */
  #endTransfer(slot: number, nowMs: number): void {
    const tube = this.#core.tubeOf(slot);
    assert(tube.movingJobs > 0, "a job in transit is counted");
    tube.counts.movedOut++;
    this.#core.batches.travels(slot, -1);
    if (this.stateBefore(slot) === JobState.Reserved) this.#changes.handedOn(slot, tube, nowMs);
    this.#core.policies.keys.departed(slot, nowMs);
    this.#core.store.end(slot, tube);
    this.#core.serveIfLimited(tube, nowMs);
    this.#core.dropIfUnused(tube);
  }

  /** Returns a moving job to its previous state, because the other shard did not take it. */
  #stay(slot: number, nowMs: number): void {
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    const tube = this.#core.tubeOf(slot);
    assert(tube.movingJobs > 0, "a job that returns was counted as in transit");
    const before = this.stateBefore(slot);
    this.#core.batches.travels(slot, -1);
    const holder = before === JobState.Reserved ? this.#core.sessions[page.holder[row]!] : undefined;
    if (holder !== undefined) {
      this.#core.queues.becomeHeldAgain(slot, tube, holder);
      holder.turns?.holdsAgain(tube, nowMs);
      this.#core.sessionTimers.set(holder);
    } else if (before === JobState.Reserved) {
      if (!ENDS.HandOverFailed.isAttempt) this.#core.policies.excused(slot);
      this.#core.queues.becomeReady(slot, tube, nowMs);
    } else if (before === JobState.Delayed)
      this.#core.queues.becomeDelayed(slot, tube, page.deadlineAtMs[row]!);
    else if (before === JobState.Buried) {
      this.#core.queues.becomeBuried(slot, tube, nowMs);
      // The job is now behind the other buried ones, and a restart must not change their order.
      this.#core.records?.updated(slot);
      this.#core.policies.deaths.leaveAfterAll(slot);
    } else this.#core.queues.becomeReady(slot, tube, nowMs);
    // The pass over a cancelled batch has left it alone, or will.
    if (this.#core.batches.spare(slot)) this.#core.records?.updated(slot);
    this.#core.runDueAndServe(tube, nowMs);
    this.#core.dropIfUnused(tube);
  }

  // --- from other shards ----------------------------------------------------------------------

  /**
   * Takes a job from another shard. Done: the job is here now, and logged. TubeFull, NoRoom:
   * nothing has changed, and the caller owns the body.
   */
  arrive(
    job: RestoredJob,
    body: number,
    attributes: JobAttributes | undefined,
    arrival: Arrival,
    nowMs: number,
  ): Outcome {
    assert(job.state !== JobState.Reserved && job.state !== JobState.Moving, "no job arrives reserved");
    if (CHECKED) assert(this.#core.ownsTube(job.tube), "a job arrives at the shard of its tube");
    this.#core.runDue(nowMs);
    const stale = this.#core.find(job.id);
    // The job left this shard and is back before this shard learned of its arrival elsewhere.
    if (stale !== NO_SLOT) this.#endTransfer(stale, nowMs);
    const there = this.#core.tubes.open(job.tube);
    if (arrival.travel !== Travel.Death && this.#core.policies.isFull(there, job.bodyBytes)) {
      this.#core.dropIfUnused(there);
      return Outcome.TubeFull;
    }
    const staysDead = arrival.travel === Travel.Death || arrival.travel === Travel.Handed;
    const isDelayed = job.state === JobState.Delayed || (arrival.delayMs ?? 0) > 0;
    const slot = this.#insert(there, job, body, attributes, staysDead, isDelayed);
    if (slot === NO_SLOT) {
      this.#core.dropIfUnused(there);
      return Outcome.NoRoom;
    }
    there.counts.movedIn++;
    const isDead = attributes !== undefined && attributes.reason !== DeathReason.None;
    const becomesReady = arrival.asReady || arrival.travel === Travel.Death || (isDead && !staysDead);
    this.#enter(slot, there, becomesReady ? JobState.Ready : job.state, job.deadlineAtMs, nowMs);
    if (arrival.delayMs !== undefined) {
      this.#changes.delay(slot, there, arrival.delayMs, nowMs);
      return Outcome.Done;
    }
    this.#core.runDueAndServe(there, nowMs);
    this.#core.dropIfUnused(there);
    return Outcome.Done;
  }

  /** Returns NO_SLOT if memory runs out; the job is then not created, and its body is kept. */
  #insert(
    there: Tube,
    job: RestoredJob,
    body: number,
    attributes: JobAttributes | undefined,
    staysDead: boolean,
    isDelayed: boolean,
  ): number {
    let slot: number = NO_SLOT;
    try {
      there.ready.makeRoom();
      if (isDelayed) there.delayed.makeRoom();
      slot = this.#core.insertKnown(there, job, body);
      this.#core.store.arrive(slot, there, attributes, staysDead);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      if (slot !== NO_SLOT) this.#core.store.remove(slot, there);
      return NO_SLOT;
    }
    return slot;
  }

  #enter(slot: number, there: Tube, state: JobState, deadlineAtMs: number, nowMs: number): void {
    const waits = state === JobState.Delayed || this.#core.batches.waits(slot);
    if (waits) this.#core.queues.becomeDelayed(slot, there, deadlineAtMs);
    else if (state === JobState.Buried) this.#core.queues.becomeBuried(slot, there, nowMs);
    else this.#core.queues.becomeReady(slot, there, nowMs);
    this.#core.records?.updated(slot);
  }

  // --- dead jobs ------------------------------------------------------------------------------

  /** Returns whether a dead job that has to leave is still here or in transit. */
  isLeaving(id: number): boolean {
    const slot = this.#core.find(id);
    return slot !== NO_SLOT && (this.#core.policies.deaths.isLeaving(slot) || this.isMoving(id));
  }

  /**
   * Returns the tube of another shard to which a job marked to leave has to go; "" if there is
   * none. If this shard owns the tube, moves the job there.
   */
  leavesFor(id: number, nowMs: number): string {
    this.#core.runDue(nowMs);
    const slot = this.#core.find(id);
    if (slot === NO_SLOT) return "";
    const tube = this.#core.tubeOf(slot);
    const target = this.#core.policies.endLeaving(slot, tube, nowMs);
    assert(target !== tube.name, "a job leaves for another tube");
    if (target === "") return "";
    if (!this.#core.ownsTube(target)) return target;
    const there = this.#core.policies.bringToDeadLetter(slot, tube, target, nowMs);
    // A dead job has a TTL only if it got one since its death, and that may have passed.
    this.#core.runDueAndServe(there, nowMs);
    this.#core.dropIfUnused(there);
    this.#core.dropIfUnused(tube);
    return "";
  }
}
