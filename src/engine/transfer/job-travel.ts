// Transfers of jobs to and from tubes of other shards.
//
// A job that leaves stays here, in state Moving, until the other shard has it. To clients it looks
// reserved, and no timer and no end of a connection affects it. Then it is removed without a
// record, because the other shard has written one. If that shard does not take it, it returns to
// its previous state. The shard transports the jobs.

import { DeathReason } from "../../protocol/job-attribute.ts";
import type { JobAttributes } from "../jobs/job-attributes.ts";
import { JobState, type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import type { RestoredJob } from "../jobs/new-job.ts";
import { Outcome } from "../jobs/outcome.ts";
import type { JobQueues } from "../policies/job-queues.ts";
import type { Policies } from "../policies/policies.ts";
import type { Tube } from "../tubes/tube.ts";
import type { TubeTable } from "../tubes/tube-table.ts";
import type { RecordSink } from "../waiting/effects.ts";
import type { Session } from "../waiting/session.ts";

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

/** How the jobs of one shipment arrive. */
export interface Arrival {
  readonly travel: Travel;
  /** Whether they become ready, whatever their state was. */
  readonly asReady: boolean;
  /** If set, they become ready, or delayed by this time, ms. */
  readonly delayMs: number | undefined;
}

/** The parts of an engine that transfers need. */
export interface TravelHost {
  readonly jobs: JobTable;
  readonly queues: JobQueues;
  readonly tubes: TubeTable;
  readonly policies: Policies;
  readonly records: RecordSink;
  /** Returns the slot of a job, or NO_SLOT. */
  readonly find: (id: number) => number;
  /** Takes a job out of its queue, in any state. */
  readonly leave: (slot: number) => void;
  /**
   * Creates a row for a job with its counters, in no queue. Throws RangeError when memory is
   * exhausted.
   */
  readonly insert: (tube: Tube, job: RestoredJob, body: number) => number;
  /** Removes a job that is in no queue; the caller owns its body. */
  readonly remove: (slot: number, tube: Tube) => void;
  /** Does the same, including the body. */
  readonly end: (slot: number, tube: Tube) => void;
  /** Notes that the holder of a job has handed it on. */
  readonly handedOn: (slot: number, tube: Tube, nowMs: number) => void;
  /** Makes the job ready or delayed, where it is now. */
  readonly delay: (slot: number, tube: Tube, delayMs: number, nowMs: number) => void;
  /** Gives ready jobs of the tube, which may have expired, to waiting clients. */
  readonly offer: (tube: Tube, nowMs: number) => void;
  /** Notes that a reservation of a job of the tube ended. */
  readonly freed: (tube: Tube, nowMs: number) => void;
  /** Deletes the tube if it is unused. */
  readonly drop: (tube: Tube) => void;
  /** Returns the session with this index, if there is one. */
  readonly session: (index: number) => Session | undefined;
  /** Notes that the jobs that the session holds have changed. */
  readonly retime: (session: Session) => void;
}

export class JobTravel {
  readonly #host: TravelHost;

  constructor(host: TravelHost) {
    this.#host = host;
  }

  /** Starts the transfer of a job in any state but Moving, with this shipment. */
  depart(slot: number, shipment: number): void {
    const { leave, queues } = this.#host;
    leave(slot);
    queues.becomeMoving(slot, queues.tubeOf(slot), shipment);
  }

  /**
   * Returns the slot of a job that is in transit with this shipment, or NO_SLOT. A job may have
   * returned and left again with another shipment.
   */
  travelling(id: number, shipment: number): number {
    const slot = this.#host.find(id);
    if (slot === NO_SLOT) return NO_SLOT;
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    return page.state[row] === JobState.Moving && page.next[row] === shipment ? slot : NO_SLOT;
  }

  /** Returns the state that a moving job had before. */
  stateBefore(slot: number): JobState {
    return this.#host.jobs.pageOf(slot).previous[rowOf(slot)] as JobState;
  }

  /** Removes a moving job that another shard now has. */
  departed(slot: number, nowMs: number): void {
    const { queues, end, freed, drop, handedOn } = this.#host;
    const tube = queues.tubeOf(slot);
    tube.counts.movedOut++;
    if (this.stateBefore(slot) === JobState.Reserved) handedOn(slot, tube, nowMs);
    end(slot, tube);
    freed(tube, nowMs);
    drop(tube);
  }

  /** Returns a moving job to its previous state, because the other shard did not take it. */
  stay(slot: number, nowMs: number): void {
    const { jobs, queues, policies, records, session, retime, offer, drop } = this.#host;
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    const tube = queues.tubeOf(slot);
    const before = this.stateBefore(slot);
    const holder = before === JobState.Reserved ? session(page.holder[row]!) : undefined;
    if (holder !== undefined) {
      queues.becomeHeldAgain(slot, tube, holder);
      retime(holder);
    } else if (before === JobState.Delayed) queues.becomeDelayed(slot, tube, page.deadlineAtMs[row]!);
    else if (before === JobState.Buried) {
      queues.becomeBuried(slot, tube, nowMs);
      // The job is now behind the other buried ones, and a restart must not change their order.
      records.updated(slot);
      policies.leaveAfterAll(slot);
    } else queues.becomeReady(slot, tube, nowMs);
    offer(tube, nowMs);
    drop(tube);
  }

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
    const { tubes, policies, find, drop } = this.#host;
    const stale = find(job.id);
    // The job left from here and is back before this shard learned of its arrival.
    if (stale !== NO_SLOT) this.departed(stale, nowMs);
    const there = tubes.open(job.tube);
    if (arrival.travel !== Travel.Death && policies.isFull(there, job.bodyBytes)) {
      drop(there);
      return Outcome.TubeFull;
    }
    const staysDead = arrival.travel === Travel.Death || arrival.travel === Travel.Handed;
    if ((arrival.delayMs ?? 0) > 0) there.delayed.makeRoom();
    const slot = this.#insert(there, job, body, attributes, staysDead);
    if (slot === NO_SLOT) {
      drop(there);
      return Outcome.NoRoom;
    }
    there.counts.movedIn++;
    const isDead = attributes !== undefined && attributes.reason !== DeathReason.None;
    const becomesReady = arrival.asReady || arrival.travel === Travel.Death || (isDead && !staysDead);
    this.#enter(slot, there, becomesReady ? JobState.Ready : job.state, job.deadlineAtMs, nowMs);
    if (arrival.delayMs !== undefined) {
      this.#host.delay(slot, there, arrival.delayMs, nowMs);
      return Outcome.Done;
    }
    this.#host.offer(there, nowMs);
    drop(there);
    return Outcome.Done;
  }

  /** Returns NO_SLOT if memory runs out; the job is then not created. */
  #insert(
    there: Tube,
    job: RestoredJob,
    body: number,
    attributes: JobAttributes | undefined,
    staysDead: boolean,
  ): number {
    const { insert, remove, policies } = this.#host;
    let slot: number = NO_SLOT;
    try {
      there.ready.makeRoom();
      if (job.state === JobState.Delayed) there.delayed.makeRoom();
      slot = insert(there, job, body);
      policies.arrive(slot, there, attributes, staysDead);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      if (slot !== NO_SLOT) remove(slot, there);
      return NO_SLOT;
    }
    return slot;
  }

  #enter(slot: number, there: Tube, state: JobState, deadlineAtMs: number, nowMs: number): void {
    const { queues, records } = this.#host;
    if (state === JobState.Delayed) queues.becomeDelayed(slot, there, deadlineAtMs);
    else if (state === JobState.Buried) queues.becomeBuried(slot, there, nowMs);
    else queues.becomeReady(slot, there, nowMs);
    records.updated(slot);
  }
}
