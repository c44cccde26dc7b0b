// The server's own decisions on jobs: limits of a tube, the end of a reservation, death, expiry.
//
// The engine asks this class only about jobs with extras and tubes with a policy. It changes
// extras, keys and queues, and has the changes logged; the engine then serves waiting clients.

import { assert, CHECKED } from "../../base/assert.ts";
import { asciiBytes } from "../../base/bytes.ts";
import { DeathReason } from "../../protocol/job-attribute.ts";
import { Span } from "../../protocol/request.ts";
import { BatchOutcome, BatchState } from "../../schema/batch.ts";
import { EMPTY_BODY } from "../jobs/body-arena.ts";
import { ENDS, type End, KeyAfter, MemberAfter } from "../jobs/ends.ts";
import { ExtraFlag, FlowFlag, JobState, type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import type { JobAttributes } from "../jobs/new-job.ts";
import type { BatchRow, BatchTable } from "../state/batch-table.ts";
import type { ShardState, WorkerName } from "../state/shard-state.ts";
import type { Tube } from "../tubes/tube.ts";
import { attemptsOf, backoffMs, Failures, isSpent, NOBODY, resetAttempts } from "./failures.ts";
import { FinishedJobs } from "./finished-jobs.ts";
import { JobNotes } from "./job-notes.ts";
import { DeadJobs, GroupMembership, JobStore, LONG_AGO_MS, StoredAttributes } from "./job-store.ts";
import { NO_ROW } from "./key-table.ts";
import { UniqueKeys } from "./unique-keys.ts";

// The verdict of policies on a put.

/** The verdict on a put. */
export const PutVerdict = {
  Welcome: 0,
  Duplicate: 1,
  TubeFull: 2,
  NoRoom: 3,
  NoBatch: 4,
  BatchCommitted: 5,
  BatchOrder: 6,
} as const;
export type PutVerdict = (typeof PutVerdict)[keyof typeof PutVerdict];

// The batches that a put names: whether its job may join or wait for them.

class PutFlows {
  readonly #batches: BatchTable;
  readonly #jobs: JobTable;

  constructor({ batches, jobs }: { readonly batches: BatchTable; readonly jobs: JobTable }) {
    this.#batches = batches;
    this.#jobs = jobs;
  }

  /** Returns a batch that all shards know. */
  #named(name: string): BatchRow | undefined {
    const batch = this.#batches.named(name);
    assert(batch === undefined || batch.number > 0, "a batch that is named has a number");
    return batch?.state === BatchState.Opening ? undefined : batch;
  }

  /** Looks up the batches that a put names. A complete one has its effect at once. */
  judge(attributes: JobAttributes): PutVerdict {
    const { batchName, afterName } = attributes;
    if (afterName !== "") {
      const awaited = this.#named(afterName);
      if (awaited === undefined) return PutVerdict.NoBatch;
      if (awaited.state !== BatchState.Complete) attributes.after = awaited.number;
      else if (isLostAfter(awaited, attributes.afterAny)) attributes.lost = reasonOf(awaited);
    }
    if (batchName === "") return PutVerdict.Welcome;
    const batch = this.#named(batchName);
    if (batch === undefined) return PutVerdict.NoBatch;
    if (batch.state !== BatchState.Open) return PutVerdict.BatchCommitted;
    // The order of opening keeps batches from waiting for each other.
    if (attributes.after !== 0 && attributes.after >= batch.number) return PutVerdict.BatchOrder;
    attributes.batch = batch.number;
    return PutVerdict.Welcome;
  }

  /**
   * Judges a put whose key a job has, after `judge`, by the batches of that job. `mayJoin` says
   * whether the job may take those of the put. Otherwise, it must have them already: a put that
   * succeeds never drops a batch.
   */
  judgeAgain(slot: number, attributes: JobAttributes, mayJoin: boolean): PutVerdict {
    if (!attributes.namesBatch) return PutVerdict.Welcome;
    const batch = this.#batches.of(this.#jobs.pageOf(slot).extras?.flows?.batch[rowOf(slot)] ?? 0);
    const awaited = this.#batches.awaitedBy(slot);
    if (!this.#mayBeMember(slot, batch, attributes, mayJoin)) return PutVerdict.Duplicate;
    if (!this.#mayWait(slot, awaited, attributes, mayJoin)) return PutVerdict.Duplicate;
    const after = awaited?.number ?? attributes.after;
    const member = batch?.number ?? attributes.batch;
    return after !== 0 && member !== 0 && after >= member ? PutVerdict.BatchOrder : PutVerdict.Welcome;
  }

  #mayBeMember(
    slot: number,
    batch: BatchRow | undefined,
    attributes: JobAttributes,
    mayJoin: boolean,
  ): boolean {
    if (attributes.batch === 0) return true;
    if (batch === undefined) return mayJoin;
    return batch.number === attributes.batch && !this.#has(slot, FlowFlag.Ended);
  }

  #mayWait(
    slot: number,
    awaited: BatchRow | undefined,
    { after, afterName, afterAny, lost }: JobAttributes,
    mayJoin: boolean,
  ): boolean {
    if (awaited === undefined || afterName === "") return mayJoin || (after === 0 && lost === undefined);
    if (awaited.name !== afterName) return false;
    return mayJoin || afterAny === this.#has(slot, FlowFlag.Any);
  }

  #has(slot: number, flag: number): boolean {
    return ((this.#jobs.pageOf(slot).extras?.flows?.flags[rowOf(slot)] ?? 0) & flag) !== 0;
  }
}

/** Returns whether a job that waited for a complete batch must not run. */
export function isLostAfter({ outcome }: BatchRow, any: boolean): boolean {
  return !any && outcome !== BatchOutcome.Success;
}

/** Returns why a job that waited for success is buried. */
export function reasonOf({ name, outcome, allDone, allFailed }: BatchRow): Uint8Array {
  assert(outcome !== BatchOutcome.Success, "no job is buried for a batch that succeeded");
  if (outcome === BatchOutcome.Cancelled) return asciiBytes(`batch ${name}: cancelled`);
  const members = allDone + allFailed;
  return asciiBytes(`batch ${name}: ${allFailed} of ${members} members failed`);
}

/** Returns bytes as a span. */
export function spanOf(bytes: Uint8Array): Span {
  const span = new Span();
  span.set(bytes, 0, bytes.length);
  return span;
}

export class Policies {
  readonly keys: UniqueKeys;
  readonly attributes: StoredAttributes;
  readonly deaths: DeadJobs;
  readonly failures: Failures;
  readonly notes: JobNotes;
  readonly finished: FinishedJobs;
  readonly store: JobStore;
  readonly flows: PutFlows;
  /** The job that the last put duplicated. */
  duplicateOf = 0;
  /** Whether that job is gone, or in another tube now: only its key is remembered. */
  duplicateHasLeft = false;
  readonly #shard: ShardState;
  readonly #groups: GroupMembership;

  /** `keySeed` is the seed of the hash of keys. */
  constructor(shard: ShardState, keySeed: readonly [number, number], workerName: WorkerName) {
    this.#shard = shard;
    this.keys = new UniqueKeys(shard, keySeed);
    this.failures = new Failures(shard, workerName);
    this.notes = new JobNotes(shard);
    this.attributes = new StoredAttributes(shard, this.keys, this.failures, this.notes);
    this.finished = new FinishedJobs(shard, this.attributes, this.failures, workerName);
    this.deaths = new DeadJobs(shard, this.keys, this.attributes);
    this.#groups = new GroupMembership(shard, this.attributes);
    this.flows = new PutFlows(shard);
    this.store = new JobStore(shard, this.keys, this.attributes, this.#groups, this.deaths, this.failures);
  }

  /** When the next job expires or the next key is forgotten; Infinity for never. */
  get nextAtMs(): number {
    return Math.min(this.#shard.queues.nextExpiryAtMs, this.keys.table.nextAtMs);
  }

  /** Returns whether policies apply to a job. */
  applyTo(slot: number, tube: Tube): boolean {
    const { extras } = this.#shard.jobs.pageOf(slot);
    return tube.policy !== undefined || (extras !== undefined && !extras.isPlain(rowOf(slot)));
  }

  // --- limits ---------------------------------------------------------------------------------

  /** Returns whether a put is accepted, before anything is done for it. */
  judge(tube: Tube, bodyBytes: number, attributes: JobAttributes | undefined): PutVerdict {
    if (attributes?.namesBatch === true) {
      const verdict = this.flows.judge(attributes);
      if (verdict !== PutVerdict.Welcome) return verdict;
    }
    if (attributes?.hasKey === true) {
      const row = this.keys.rowFor(tube, attributes);
      if (row !== NO_ROW) {
        this.duplicateOf = this.keys.table.idOf(row);
        this.duplicateHasLeft = this.keys.jobWith(row) === NO_SLOT;
        assert(this.duplicateOf > 0, "a key has the id of a job");
        tube.counts.duplicates++;
        this.#shard.putDuplicates++;
        return PutVerdict.Duplicate;
      }
      if (this.keys.table.isFull) return PutVerdict.NoRoom;
    }
    if (!this.#groups.hasNoRoomFor(tube, attributes) && !this.isFull(tube, bodyBytes))
      return PutVerdict.Welcome;
    tube.counts.rejected++;
    this.#shard.putRefusals++;
    return PutVerdict.TubeFull;
  }

  /** Returns whether a tube has no room for another body of this size. */
  isFull({ policy, jobs, bytes }: Tube, bodyBytes: number): boolean {
    return policy !== undefined && (jobs >= policy.maxJobs || bytes + bodyBytes > policy.maxBytes);
  }

  // --- the end of a reservation ---------------------------------------------------------------

  /** Ends a reservation as the policies say; returns the tube if the job is ready there. */
  reservationEnded(slot: number, tube: Tube, end: End, delayMs: number, nowMs: number): Tube | undefined {
    const { jobs, queues, records } = this.#shard;
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(page.state[row] === JobState.Reserved, "only a reservation ends");
    const expiresAtMs = page.extras?.expiresAtMs[row] ?? 0;
    if (expiresAtMs > 0 && expiresAtMs <= nowMs) {
      this.#expire(slot, tube, page.holder[row]!, nowMs);
      return undefined;
    }
    const attempts = attemptsOf(page, row);
    if (end.isAttempt && isSpent(tube, attempts)) return this.#die(slot, tube, nowMs);
    const { policy } = tube;
    let waitMs = delayMs;
    if (waitMs === 0 && end.backsOff && policy !== undefined && policy.backoffMs > 0) {
      waitMs = backoffMs(policy, page.id[row]!, attempts);
      page.delaySeconds[row] = Math.floor(waitMs / 1000);
    }
    if (waitMs > 0) queues.becomeDelayed(slot, tube, nowMs + waitMs);
    else queues.becomeReady(slot, tube, nowMs);
    records?.updated(slot);
    return waitMs > 0 ? undefined : tube;
  }

  /** Handles a job without attempts left; one that died before stays, or it would go in circles. */
  #die(slot: number, tube: Tube, nowMs: number): Tube | undefined {
    const { jobs, queues, records, ownsTube } = this.#shard;
    assert(tube.policy !== undefined, "a job dies by the settings of its tube");
    if (tube.keepFinished > 0)
      this.finished.add(slot, ENDS.Died.finished, jobs.pageOf(slot).holder[rowOf(slot)]!, nowMs);
    const { deadLetter } = tube.policy;
    const hadOrigin = jobs.pageOf(slot).makeExtras().origin[rowOf(slot)] !== EMPTY_BODY;
    this.deaths.mark(slot, tube, DeathReason.Attempts, nowMs);
    if (deadLetter !== "" && !hadOrigin) {
      if (ownsTube(deadLetter)) return this.#enterDeadLetter(slot, tube, deadLetter, nowMs);
      this.deaths.markLeaving(slot);
    }
    queues.becomeBuried(slot, tube, nowMs);
    records?.updated(slot);
    return undefined;
  }

  #enterDeadLetter(slot: number, tube: Tube, target: string, nowMs: number): Tube {
    if (CHECKED) assert(this.#shard.ownsTube(target), "a job dies into a tube of its shard");
    const there = this.store.changeTube(slot, tube, target, nowMs);
    this.#shard.queues.becomeReady(slot, there, nowMs);
    this.#shard.records?.updated(slot);
    return there;
  }

  /**
   * Removes a job's mark to leave unless it is in transit; returns the tube to which it has to go,
   * or "". A job that stays is buried again, behind the others, with a record: otherwise, it would
   * still be marked in the log, and would leave after a restart.
   */
  endLeaving(slot: number, tube: Tube, nowMs: number): string {
    if (!this.deaths.isLeaving(slot)) return "";
    const { jobs, queues, records } = this.#shard;
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] === JobState.Moving && page.previous[row] === JobState.Buried) return "";
    if (CHECKED) assert(this.deaths.isDead(slot), "only a dead job has to leave");
    this.deaths.stayHere(page, row);
    if (page.state[row] !== JobState.Buried) return "";
    const target = tube.policy?.deadLetter ?? "";
    if (target !== "" && target !== tube.name) return target;
    queues.leave(slot);
    queues.becomeBuried(slot, tube, nowMs);
    records?.updated(slot);
    return "";
  }

  /** Moves a buried dead job to its dead-letter tube, which this shard owns. */
  bringToDeadLetter(slot: number, tube: Tube, target: string, nowMs: number): Tube {
    assert(this.deaths.isDead(slot), "only a dead job goes to the dead-letter tube");
    this.#shard.queues.leave(slot);
    return this.#enterDeadLetter(slot, tube, target, nowMs);
  }

  // --- cancelled jobs -------------------------------------------------------------------------

  /** Returns whether a job was cancelled while a session held it. */
  isCancelled(slot: number): boolean {
    return this.#shard.jobs.pageOf(slot).extras?.isCancelled(rowOf(slot)) === true;
  }

  /**
   * Marks a job that a session holds. It counts as expired from here on, so it goes with its
   * reservation unless the holder deletes it. The first reason stays. Throws RangeError when memory
   * is exhausted, before anything has changed.
   */
  markCancelled(slot: number, tube: Tube, reason: Uint8Array): void {
    const { jobs, records } = this.#shard;
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(page.state[row] === JobState.Reserved, "only a job that is held gets the mark");
    if (this.isCancelled(slot)) return;
    // It may come back before it goes.
    tube.expiry.makeRoom();
    this.notes.setReason(slot, reason);
    const extras = page.makeExtras();
    extras.expiresAtMs[row] = LONG_AGO_MS;
    extras.flags[row]! |= ExtraFlag.Cancelled;
    records?.updated(slot);
  }

  /** Removes a cancelled job that is in no queue, and that `holder` held until now. */
  endCancelled(slot: number, tube: Tube, holder: number, nowMs: number, reason?: Uint8Array): void {
    if (tube.keepFinished > 0) this.finished.add(slot, ENDS.Cancelled.finished, holder, nowMs, reason);
    tube.counts.cancelled++;
    this.#shard.jobCancels++;
    this.recordEnd(slot, ENDS.Cancelled, nowMs);
    this.store.end(slot, tube);
  }

  // --- kicks and moves ------------------------------------------------------------------------

  /** Prepares a job for a kick: it regains its attempts, and revives if it died in this tube. */
  kicked(slot: number, tube: Tube): void {
    resetAttempts(this.#shard.jobs.pageOf(slot), rowOf(slot), tube);
    const { attributes, deaths } = this;
    if (deaths.isDead(slot) && attributes.originOf(slot) === tube.name) deaths.revive(slot, tube);
  }

  /**
   * Excuses a job whose reservation ends and was no attempt, whatever its tube limits now: the
   * limit may be set later, and the job may move. If memory is exhausted, the reservation counts.
   */
  excused(slot: number): void {
    try {
      this.#shard.jobs.pageOf(slot).makeExtras().attemptsBase[rowOf(slot)]!++;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }

  /**
   * Moves a ready, delayed or buried job, which has left its queue, to another tube, in its state
   * or as ready. A dead job revives there with all its attempts. Returns the tube.
   */
  moveTo(slot: number, tube: Tube, target: string, asReady: boolean, nowMs: number): Tube {
    const { jobs, queues, records } = this.#shard;
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    const state = page.state[row];
    assert(
      state !== JobState.Reserved && state !== JobState.Moving,
      "a job that is held or in transit stays in its tube",
    );
    const deadlineAtMs = page.deadlineAtMs[row]!;
    const wasDead = this.deaths.isDead(slot);
    if (wasDead) this.deaths.forgetDeath(slot);
    const there = this.store.changeTube(slot, tube, target, nowMs);
    const isReady = wasDead || asReady || state === JobState.Ready;
    if (isReady && !this.#shard.batches.waits(slot)) queues.becomeReady(slot, there, nowMs);
    else if (state === JobState.Delayed) queues.becomeDelayed(slot, there, deadlineAtMs);
    else queues.becomeBuried(slot, there, nowMs);
    records?.updated(slot);
    return there;
  }

  // --- expiry ---------------------------------------------------------------------------------

  /** Forgets a due key or expires a job; returns that job's tube, whose best job may differ now. */
  runOne(nowMs: number): Tube | undefined {
    const { queues } = this.#shard;
    if (this.keys.runOne(nowMs)) return undefined;
    const slot = queues.nextExpiring;
    assert(slot !== NO_SLOT, "a timer that is due has a job");
    const tube = this.#shard.tubeOf(slot);
    queues.leave(slot);
    this.#expire(slot, tube, NOBODY, nowMs);
    return tube;
  }

  /** Records the removal of a job; its key may stay. */
  recordEnd(slot: number, end: End, nowMs: number): void {
    const { batches, jobs, records } = this.#shard;
    assert(end.key === KeyAfter.Remembered, "a job that is removed no longer holds its key");
    assert(end.member !== MemberAfter.Open, "a job that is removed is no open member");
    const page = jobs.pageOf(slot);
    const id = page.id[rowOf(slot)]!;
    const batch = batches.end(slot, end.member === MemberAfter.Done);
    // This record ends the job. One of its key may follow: if that is lost, so is only the key.
    if (batch !== undefined) records?.ended(id, batch.number, batch.done, batch.failed);
    if (page.extras !== undefined && this.keys.end(slot, nowMs)) return;
    if (batch === undefined) records?.deleted(id);
  }

  /** Handles the expiry of a job that is in no queue, and that `holder` held until now. */
  #expire(slot: number, tube: Tube, holder: number, nowMs: number): void {
    const { queues, records, jobs } = this.#shard;
    if (this.isCancelled(slot)) {
      this.endCancelled(slot, tube, holder, nowMs);
      return;
    }
    if (tube.keepFinished > 0) this.finished.add(slot, ENDS.Expired.finished, holder, nowMs);
    tube.counts.expired++;
    this.#shard.jobExpiries++;
    if (CHECKED)
      assert(
        jobs.pageOf(slot).extras!.expiryPosition[rowOf(slot)] === -1,
        "a job that expires is in no queue",
      );
    if (tube.policy?.expire === "bury") {
      this.failures.add(slot, ENDS.Expired.failure, NOBODY, nowMs);
      this.deaths.mark(slot, tube, DeathReason.Expired, nowMs);
      queues.becomeBuried(slot, tube, nowMs);
      records?.updated(slot);
      return;
    }
    this.recordEnd(slot, ENDS.Expired, nowMs);
    this.store.end(slot, tube);
  }
}
