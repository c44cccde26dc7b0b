// How jobs leave for a tube of another shard, and come from one.
//
// A job that leaves stays here until the other shard has it: it is Moving, which to everybody looks as if somebody held it, and
// no timer and no end of a connection touches it. Then it goes without a record, because the other shard has written one; or
// it is what it was before, if that shard does not take it. Who carries it between the two is the shard's business.

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

/** Why a job comes. */
export const Travel = {
  /** By a move-jobs: a dead one lives again. */
  Move: 0,
  /** It has died: it stays dead, is ready, and no limit keeps it out. */
  Death: 1,
  /** By an update-job. */
  Update: 2,
  /** By an update-job of its holder: it is given back, and stays dead. */
  Handed: 3,
} as const;
export type Travel = (typeof Travel)[keyof typeof Travel];

/** How jobs arrive that travel together. */
export interface Arrival {
  readonly travel: Travel;
  /** They become ready, whatever they were. */
  readonly asReady: boolean;
  /** They become ready or delayed for so long, ms. */
  readonly delayMs: number | undefined;
}

/** What of an engine travelling jobs need. */
export interface TravelHost {
  readonly jobs: JobTable;
  readonly queues: JobQueues;
  readonly tubes: TubeTable;
  readonly policies: Policies;
  readonly records: RecordSink;
  /** The slot of a job, or NO_SLOT. */
  readonly find: (id: number) => number;
  /** Takes a job out of its queue, in whatever state. */
  readonly leave: (slot: number) => void;
  /** A row for a job with all that was counted of it, in no queue. Throws RangeError when memory is exhausted. */
  readonly insert: (tube: Tube, job: RestoredJob, body: number) => number;
  /** Forgets a job that is in no queue; its body is the caller's. */
  readonly remove: (slot: number, tube: Tube) => void;
  /** The same with its body. */
  readonly end: (slot: number, tube: Tube) => void;
  /** The holder of a job has handed it on. */
  readonly handedOn: (slot: number, tube: Tube, nowMs: number) => void;
  /** The job, where it is now, becomes ready or delayed. */
  readonly delay: (slot: number, tube: Tube, delayMs: number, nowMs: number) => void;
  /** Gives ready jobs of the tube, which may have expired, to those who wait for them. */
  readonly offer: (tube: Tube, nowMs: number) => void;
  /** A reservation of a job of the tube ended. */
  readonly freed: (tube: Tube, nowMs: number) => void;
  /** The tube goes if nobody needs it. */
  readonly drop: (tube: Tube) => void;
  /** The session with this index, if there is one. */
  readonly session: (index: number) => Session | undefined;
  /** What the session holds has changed. */
  readonly retime: (session: Session) => void;
}

export class JobTravel {
  readonly #host: TravelHost;

  constructor(host: TravelHost) {
    this.#host = host;
  }

  /** A job in whatever state but Moving sets out with this shipment. */
  depart(slot: number, shipment: number): void {
    const { leave, queues } = this.#host;
    leave(slot);
    queues.becomeMoving(slot, queues.tubeOf(slot), shipment);
  }

  /** The slot of a job that is on its way with this shipment, or NO_SLOT: it may have come back from where it went by another. */
  travelling(id: number, shipment: number): number {
    const slot = this.#host.find(id);
    if (slot === NO_SLOT) return NO_SLOT;
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    return page.state[row] === JobState.Moving && page.next[row] === shipment ? slot : NO_SLOT;
  }

  /** The state that a moving job was in. */
  stateBefore(slot: number): JobState {
    return this.#host.jobs.pageOf(slot).previous[rowOf(slot)] as JobState;
  }

  /** Another shard has a job that was moving. */
  departed(slot: number, nowMs: number): void {
    const { queues, end, freed, drop, handedOn } = this.#host;
    const tube = queues.tubeOf(slot);
    tube.counts.movedOut++;
    if (this.stateBefore(slot) === JobState.Reserved) handedOn(slot, tube, nowMs);
    end(slot, tube);
    freed(tube, nowMs);
    drop(tube);
  }

  /** A moving job is not taken where it was to go: it is what it was. */
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
      // It is behind the others that are buried now, and a restart must not bring another order back.
      records.updated(slot);
      policies.leaveAfterAll(slot);
    } else queues.becomeReady(slot, tube, nowMs);
    offer(tube, nowMs);
    drop(tube);
  }

  /**
   * A job has come from another shard. Done: it lives here now, and that is logged. TubeFull, NoRoom: nothing has changed, and
   * the body is the caller's.
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
    // It went from here, and is back before it was told here that it had arrived.
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

  /** Without memory for it there is no job: NO_SLOT. */
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
