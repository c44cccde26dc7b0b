// Commands that put, delete, release, bury and kick jobs.

import { assert, CHECKED } from "../base/assert.ts";
import { OnDuplicate } from "../protocol/option-rows.ts";
import type { Span } from "../protocol/request.ts";
import { JobCounter } from "../schema/job.ts";
import { BatchReserves } from "./batch-reserves.ts";
import { ENDS, type End, Outcome } from "./jobs/ends.ts";
import { JobState, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import type { JobAttributes, JobFacts, NewJob, RestoredJob } from "./jobs/new-job.ts";
import { NOBODY } from "./policies/failures.ts";
import { NO_ROW } from "./policies/key-table.ts";
import { PutVerdict, spanOf } from "./policies/policies.ts";
import { WAITS_UNTIL_MS } from "./state/batch-table.ts";
import type { Session } from "./state/session.ts";
import type { Tube } from "./tubes/tube.ts";

/** Outcomes of a put by PutVerdict. */
const OUTCOME_OF: Readonly<Record<number, Outcome>> = {
  [PutVerdict.Duplicate]: Outcome.Duplicate,
  [PutVerdict.TubeFull]: Outcome.TubeFull,
  [PutVerdict.NoRoom]: Outcome.NoRoom,
  [PutVerdict.NoBatch]: Outcome.NoBatch,
  [PutVerdict.BatchCommitted]: Outcome.BatchCommitted,
  [PutVerdict.BatchOrder]: Outcome.BatchOrder,
};

export class JobCommands extends BatchReserves {
  // --- put ---------------------------------------------------------------------------------------

  /**
   * Stores a job whose body is in the arena, and serves a client that waits for it. The job goes to
   * the tube of this name, which is created if necessary, or for "" to the one that the session
   * uses. Throws RangeError when memory is exhausted, before anything has changed. In that case,
   * and with NoRoom, the caller still owns the body.
   */
  // put 6/10
  put(
    session: Session,
    job: NewJob,
    body: number,
    nowMs: number,
    tubeName = "",
    attributes?: JobAttributes,
  ): Outcome {
    this.runDue(nowMs);
    if (tubeName !== "") return this.#putInNamed(tubeName, job, body, nowMs, attributes);
    assert(session.used !== undefined, "a put for the tube in use goes to its shard");
    return this.#put(session.used, job, body, nowMs, attributes);
  }

  /**
   * Returns NoRoom for a put whose body memory has no room for, or Duplicate if its key is taken
   * and it needs no room: `putAgain` continues it then, without a body.
   */
  putWithoutRoom(
    session: Session,
    job: NewJob,
    nowMs: number,
    tubeName: string,
    asked: JobAttributes,
  ): Outcome {
    this.runDue(nowMs);
    if (!asked.hasKey || asked.onDuplicate === OnDuplicate.Replace) return Outcome.NoRoom;
    const tube = tubeName === "" ? session.used : this.tubes.open(tubeName);
    assert(tube !== undefined, "a put for the tube in use goes to its shard");
    try {
      const isTaken = this.policies.keys.rowFor(tube, asked) !== NO_ROW;
      return isTaken ? this.#judge(tube, job, asked) : Outcome.NoRoom;
    } finally {
      if (tubeName !== "") this.dropIfUnused(tube);
    }
  }

  /** Does the same as `put` for a job that does not come from a client. */
  putScheduled(
    tubeName: string,
    job: NewJob,
    body: number,
    nowMs: number,
    attributes: JobAttributes | undefined,
  ): Outcome {
    this.runDue(nowMs);
    return this.#putInNamed(tubeName, job, body, nowMs, attributes);
  }

  #putInNamed(
    tubeName: string,
    job: NewJob,
    body: number,
    nowMs: number,
    attributes: JobAttributes | undefined,
  ): Outcome {
    const tube = this.tubes.open(tubeName);
    try {
      return this.#put(tube, job, body, nowMs, attributes);
    } finally {
      // Without the job, the tube may be unused.
      this.dropIfUnused(tube);
    }
  }

  #put(tube: Tube, job: NewJob, body: number, nowMs: number, attributes: JobAttributes | undefined): Outcome {
    let delayMs = job.delaySeconds * 1000 + job.delayMillis;
    const isPlain = attributes === undefined && tube.policy === undefined;
    const refusal = isPlain ? Outcome.Done : this.#judge(tube, job, attributes);
    if (refusal !== Outcome.Done) return refusal;
    if (this.records?.roomForPut() === false) return Outcome.NoRoom;
    if (attributes?.after) delayMs = WAITS_UNTIL_MS;
    (delayMs > 0 ? tube.delayed : tube.ready).makeRoom();
    const slot = this.#insert(tube, job, body);
    if (!isPlain) this.#beginPolicies(slot, tube, job, attributes, nowMs);
    // `nowMs` is when this turn began. If that was before the put arrived, the delay must not start
    // earlier than the put.
    if (attributes?.lost !== undefined) this.beginLost(slot, tube, attributes.lost, nowMs);
    else if (delayMs > 0) this.queues.becomeDelayed(slot, tube, Math.max(nowMs, job.atMs) + delayMs);
    else this.queues.becomeReady(slot, tube, nowMs);
    if (this.records?.put(slot) === false) return this.#undoPut(slot, tube, attributes);
    if (attributes !== undefined) this.store.weighGroup(slot, tube);
    tube.totalJobs++;
    this.totalJobs++;
    this.meter?.stored(job.bodyBytes);
    // Without a waiter, only a rate limiter has to know.
    if (delayMs === 0 && (this.waiters.size > 0 || tube.limiter !== undefined)) this.serve(tube, nowMs);
    return Outcome.Done;
  }

  /** Buries a job that is in no queue, because the batch that it would wait for has failed. */
  protected beginLost(slot: number, tube: Tube, reason: Uint8Array, nowMs: number): void {
    this.policies.failures.add(slot, ENDS.Buried.failure, NOBODY, nowMs, spanOf(reason));
    this.countBury(slot, tube);
    this.queues.becomeBuried(slot, tube, nowMs);
  }

  /** Returns Done if the put is accepted, otherwise the reason for its refusal. */
  #judge(tube: Tube, job: NewJob, attributes: JobAttributes | undefined): Outcome {
    const verdict = this.policies.judge(tube, job.bodyBytes, attributes);
    if (verdict === PutVerdict.Welcome) return Outcome.Done;
    const outcome = OUTCOME_OF[verdict];
    assert(outcome !== undefined, "each refusal has its outcome");
    return outcome;
  }

  #undoPut(slot: number, tube: Tube, attributes: JobAttributes | undefined): Outcome {
    if (attributes?.lost !== undefined) this.countBury(slot, tube, -1);
    this.queues.leave(slot);
    this.store.remove(slot, tube);
    return Outcome.NoRoom;
  }

  /** Creates the extras of a new job; if memory runs out, removes the job. */
  #beginPolicies(
    slot: number,
    tube: Tube,
    job: NewJob,
    attributes: JobAttributes | undefined,
    nowMs: number,
  ): void {
    try {
      this.store.begin(slot, tube, attributes, Math.max(nowMs, job.atMs));
    } catch (error) {
      this.store.remove(slot, tube);
      throw error;
    }
  }

  /** Creates a row. Throws RangeError when memory is exhausted, before anything has changed. */
  #insert(tube: Tube, job: JobFacts, body: number): number {
    const { id } = job;
    assert(id > 0, "a job has an id");
    if (CHECKED) assert(this.index.get(id) === NO_SLOT, "an id names one job");
    this.index.makeRoom(id);
    const slot = this.jobs.allocate();
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    page.id[row] = id;
    page.createdAtMs[row] = job.atMs;
    page.pri[row] = job.pri;
    page.delaySeconds[row] = job.delaySeconds;
    page.ttrSeconds[row] = job.ttrSeconds;
    page.setCounters(row);
    page.tube[row] = tube.index;
    page.body[row] = body;
    page.bodyBytes[row] = job.bodyBytes;
    page.file[row] = 0;
    tube.bytes += job.bodyBytes;
    this.index.set(id, slot);
    return slot;
  }

  /** Creates a row for a job that existed elsewhere, with its counters. */
  protected insertKnown(tube: Tube, job: RestoredJob, body: number): number {
    const slot = this.#insert(tube, job, body);
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    page.setCounters(row, job.counters);
    page.file[row] = job.file;
    return slot;
  }

  /** Restores a job from the log without serving clients; buried jobs in the order of burial. */
  restore(job: RestoredJob, body: number, attributes?: JobAttributes): void {
    assert(job.state !== JobState.Reserved && job.state !== JobState.Moving, "the log has no reserved job");
    const tube = this.tubes.open(job.tube);
    const slot = this.insertKnown(tube, job, body);
    if (attributes !== undefined) this.store.restore(slot, tube, attributes);
    const isBuried = job.state === JobState.Buried || (attributes !== undefined && this.#forgetWait(slot));
    if (isBuried) this.queues.becomeBuried(slot, tube, job.deadlineAtMs);
    else if (job.state === JobState.Delayed) this.queues.becomeDelayed(slot, tube, job.deadlineAtMs);
    else this.queues.becomeReady(slot, tube, job.deadlineAtMs);
  }

  /** Ends the wait for a batch that the log doesn't contain; returns whether there was one. */
  #forgetWait(slot: number): boolean {
    const flows = this.jobs.pageOf(slot).extras?.flows;
    const row = rowOf(slot);
    if (flows === undefined || flows.after[row] === 0 || this.batches.awaitedBy(slot) !== undefined)
      return false;
    flows.after[row] = 0;
    return true;
  }

  /** Completes the restore after all jobs of the log are back. */
  endRestore(): void {
    assert(this.queues.counts[JobState.Reserved] === 0, "no job is reserved while the log is read");
    for (const tube of this.queues.readyTubes) tube.ready.sortOrder();
    this.policies.keys.endRestore();
  }

  // --- delete ------------------------------------------------------------------------------------

  delete(session: Session, id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const isHeld = page.state[row] === JobState.Reserved;
    if (isHeld) {
      if (page.holder[row] !== session.index) return Outcome.NotFound;
      this.#endHolding(slot, session, nowMs);
    } else if (page.state[row] === JobState.Moving) return Outcome.NotFound;
    else this.queues.leave(slot);
    this.#remove(slot, isHeld ? ENDS.Done : ENDS.Deleted, nowMs);
    return Outcome.Done;
  }

  /** Deletes a job in any state, whichever session holds it. */
  discard(slot: number, end: End, nowMs: number): void {
    this.leave(slot, nowMs);
    this.#remove(slot, end, nowMs);
  }

  /** Removes a job that has left its queue, and its tube if that is unused. */
  #remove(slot: number, end: End, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    if (page.extras === undefined) this.records?.deleted(page.id[rowOf(slot)]!);
    else this.policies.recordEnd(slot, end, nowMs);
    const tube = this.tubeOf(slot);
    tube.deletes++;
    this.jobDeletes++;
    this.store.end(slot, tube);
    this.serveIfLimited(tube, nowMs);
    this.dropIfUnused(tube);
  }

  // --- release and bury --------------------------------------------------------------------------

  /** Releases a held job. Only a release with a reason counts as a failure. */
  release(
    session: Session,
    id: number,
    pri: number,
    delaySeconds: number,
    nowMs: number,
    reason?: Span,
  ): Outcome {
    const slot = this.#takeFromHolder(session, id, pri, nowMs);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const end = reason !== undefined && reason.length > 0 ? ENDS.ReleasedWithReason : ENDS.Released;
    if (end.failure !== undefined)
      this.policies.failures.add(slot, end.failure, session.index, nowMs, reason);
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const tube = this.tubeOf(slot);
    tube.releases++;
    this.jobReleases++;
    page.delaySeconds[row] = delaySeconds;
    page.addTo(row, JobCounter.releases);
    if (this.policies.applyTo(slot, tube)) {
      this.endReservation(slot, tube, end, delaySeconds * 1000, nowMs);
      return Outcome.Done;
    }
    if (delaySeconds > 0) this.queues.becomeDelayed(slot, tube, nowMs + delaySeconds * 1000);
    else this.queues.becomeReady(slot, tube, nowMs);
    this.records?.updated(slot);
    if (delaySeconds === 0) this.serve(tube, nowMs);
    return Outcome.Done;
  }

  bury(session: Session, id: number, pri: number, nowMs: number, reason?: Span): Outcome {
    const slot = this.#takeFromHolder(session, id, pri, nowMs);
    if (slot === NO_SLOT) return Outcome.NotFound;
    this.policies.failures.add(slot, ENDS.Buried.failure, session.index, nowMs, reason);
    const tube = this.tubeOf(slot);
    this.countBury(slot, tube);
    this.queues.becomeBuried(slot, tube, nowMs);
    this.records?.updated(slot);
    this.serveIfLimited(tube, nowMs);
    return Outcome.Done;
  }

  /**
   * Takes a job from the session that holds it and sets its priority: the first step of a release
   * and a bury. Returns its slot, or NO_SLOT if the session doesn't hold it.
   */
  #takeFromHolder(session: Session, id: number, pri: number, nowMs: number): number {
    this.runDue(nowMs);
    const slot = this.heldBy(session, id);
    if (slot === NO_SLOT) return NO_SLOT;
    this.#endHolding(slot, session, nowMs);
    this.jobs.pageOf(slot).pri[rowOf(slot)] = pri;
    return slot;
  }

  /** Ends a reservation, because its holder does so. */
  #endHolding(slot: number, session: Session, nowMs: number): void {
    if (CHECKED)
      assert(
        this.holderOf(this.jobs.pageOf(slot).holder[rowOf(slot)]!) === session,
        "only a holder ends its reservation",
      );
    if (this.meter !== undefined) this.meterHold(this.meter, slot, nowMs);
    this.leaveHolder(slot, session, nowMs);
    this.sessionTimers.set(session);
  }

  // --- kick --------------------------------------------------------------------------------------

  /** Returns whether a kick takes buried jobs; it takes delayed ones only if none is buried. */
  kicksBuried(session: Session): boolean {
    return session.tubeInUse.buriedJobs > 0;
  }

  /** Kicks up to `bound` buried jobs (oldest first) or delayed ones (soonest first). */
  kick(session: Session, bound: number, nowMs: number, buried: boolean = this.kicksBuried(session)): number {
    this.runDue(nowMs);
    const tube = session.tubeInUse;
    let kicked = 0;
    while (kicked < bound) {
      assert(tube.using > 0, "a tube whose jobs are kicked is in use");
      const slot = buried ? tube.buried.first : tube.delayed.top;
      if (slot === NO_SLOT || this.batches.waits(slot)) break;
      this.kickOne(slot, tube, nowMs);
      kicked++;
    }
    return kicked;
  }

  kickJob(id: number, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const state = this.jobs.pageOf(slot).state[rowOf(slot)];
    if (state !== JobState.Buried && state !== JobState.Delayed) return Outcome.NotFound;
    if (this.batches.waits(slot)) return Outcome.NotFound;
    this.kickOne(slot, this.tubeOf(slot), nowMs);
    return Outcome.Done;
  }

  protected kickOne(slot: number, tube: Tube, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(
      page.state[row] === JobState.Buried || page.state[row] === JobState.Delayed,
      "only a buried or delayed job is kicked",
    );
    this.queues.leave(slot);
    tube.kicks++;
    this.jobKicks++;
    page.addTo(row, JobCounter.kicks);
    if (this.policies.applyTo(slot, tube)) this.policies.kicked(slot, tube);
    this.queues.becomeReady(slot, tube, nowMs);
    this.records?.updated(slot);
    // Buried jobs don't expire, but ready ones do, so this job may be long overdue.
    this.runDueAndServe(tube, nowMs);
    this.dropIfUnused(tube);
  }
}
