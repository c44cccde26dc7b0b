// Changes to jobs by `update-job` and `move-jobs`: priority, times, tube.
//
// The engine runs what is due before it calls this. It also serves waiting clients afterwards, and
// removes unused tubes.

import { assert } from "../base/assert.ts";
import { JobState, type JobTable, rowOf } from "./jobs/job-table.ts";
import type { ChangedFacts, JobChange } from "./jobs/new-job.ts";
import { Outcome } from "./jobs/outcome.ts";
import type { JobQueues } from "./policies/job-queues.ts";
import type { Policies } from "./policies/policies.ts";
import type { Tube } from "./tubes/tube.ts";
import type { TubeTable } from "./tubes/tube-table.ts";
import type { Meter, RecordSink } from "./waiting/effects.ts";
import type { Session } from "./waiting/session.ts";
import { MoveOutcome } from "./walks/tube-moving.ts";

/** The parts of an engine that these changes need. */
export interface ChangedJobs {
  readonly jobs: JobTable;
  readonly queues: JobQueues;
  readonly tubes: TubeTable;
  readonly policies: Policies;
  readonly records: RecordSink;
  readonly meter: Meter | undefined;
  /** Returns whether this shard owns a tube. */
  readonly ownsTube: (name: string) => boolean;
  /** Returns whether policies apply to a job. */
  readonly hasPolicy: (slot: number, tube: Tube) => boolean;
  /** Takes a job out of its queue, in any state. */
  readonly leave: (slot: number) => void;
  readonly kick: (slot: number, tube: Tube, nowMs: number) => void;
  /** Gives ready jobs of the tube, which may have expired, to waiting clients. */
  readonly offer: (tube: Tube, nowMs: number) => void;
  /** Notes that a reservation of a job of the tube ended. */
  readonly freed: (tube: Tube, nowMs: number) => void;
  /** Deletes the tube if it is unused. */
  readonly drop: (tube: Tube) => void;
  /** Notes that the jobs that the session holds have changed. */
  readonly retime: (session: Session) => void;
  /** Counts a release. */
  readonly countRelease: () => void;
}

export class JobChanges {
  readonly #host: ChangedJobs;

  constructor(host: ChangedJobs) {
    this.#host = host;
  }

  /**
   * Changes a job that this session or none holds. Returns OtherShard if the change is allowed but
   * needs a tube of another shard. Throws RangeError when memory is exhausted, before anything has
   * changed.
   */
  update(session: Session, slot: number, change: JobChange, nowMs: number): Outcome {
    const tube = this.#host.queues.tubeOf(slot);
    const refusal = this.#refusalOf(session, slot, tube, change);
    return refusal === Outcome.Done ? this.#update(session, slot, tube, change, nowMs) : refusal;
  }

  #update(session: Session, slot: number, tube: Tube, change: JobChange, nowMs: number): Outcome {
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    const isHeld = page.state[row] === JobState.Reserved;
    const { pri, ttrSeconds, delayMs, ttlMs, tube: target } = change;
    if (ttlMs !== undefined) this.#host.queues.expireAt(slot, tube, ttlMs === 0 ? 0 : nowMs + ttlMs);
    if (pri !== undefined) this.#host.queues.reprioritise(slot, tube, pri);
    if (ttrSeconds !== undefined) page.ttrSeconds[row] = ttrSeconds;
    if (target !== undefined && (isHeld || target !== tube.name)) {
      this.#updateTube(slot, tube, target, delayMs, nowMs);
      return Outcome.Done;
    }
    if (delayMs !== undefined) {
      this.delay(slot, tube, delayMs, nowMs);
      return Outcome.Done;
    }
    if (isHeld && ttrSeconds !== undefined) {
      this.#host.queues.renew(slot, session, nowMs);
      this.#host.retime(session);
    } else if (page.state[row] === JobState.Buried) {
      // Its record puts the job behind the other buried ones, and a restart must not change their
      // order.
      this.#host.queues.leave(slot);
      this.#host.queues.becomeBuried(slot, tube, nowMs);
    }
    this.#host.records.updated(slot);
    return Outcome.Done;
  }

  /**
   * Returns whether the change is allowed, before anything changes. Throws RangeError when memory
   * is exhausted.
   */
  #refusalOf(session: Session, slot: number, tube: Tube, { ttlMs, tube: target }: JobChange): Outcome {
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] === JobState.Moving) return Outcome.NotFound;
    if (page.state[row] === JobState.Reserved && page.holder[row] !== session.index) return Outcome.NotFound;
    if (ttlMs !== undefined || target !== undefined) page.makeExtras();
    if (target === undefined || target === tube.name) return Outcome.Done;
    if (!this.#host.ownsTube(target)) return Outcome.OtherShard;
    const there = this.#host.tubes.open(target);
    const isFull = this.#host.policies.isFull(there, page.bodyBytes[row]!);
    this.#host.drop(there);
    return isFull ? Outcome.TubeFull : Outcome.Done;
  }

  /**
   * Moves the job to another tube. A held job is returned there, which is a release, but not a lost
   * attempt.
   */
  #updateTube(slot: number, tube: Tube, target: string, delayMs: number | undefined, nowMs: number): void {
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Reserved) {
      this.#host.queues.leave(slot);
      const there = this.#host.policies.moveTo(slot, tube, target, false, nowMs);
      if (delayMs !== undefined) this.delay(slot, there, delayMs, nowMs);
      else {
        // A dead job revives, and may have passed a TTL that it got since its death.
        this.#host.offer(there, nowMs);
        this.#host.drop(there);
      }
      this.#host.drop(tube);
    } else if (target === tube.name) this.delay(slot, tube, delayMs ?? 0, nowMs);
    else this.#handOn(slot, tube, target, delayMs ?? 0, nowMs);
  }

  #handOn(slot: number, tube: Tube, target: string, delayMs: number, nowMs: number): void {
    this.#excuse(slot, tube, nowMs);
    this.#host.leave(slot);
    const there = this.#host.policies.changeTube(slot, tube, target);
    const page = this.#host.jobs.pageOf(slot);
    page.delaySeconds[rowOf(slot)] = Math.floor(delayMs / 1000);
    if (delayMs > 0) this.#host.queues.becomeDelayed(slot, there, nowMs + delayMs);
    else this.#host.queues.becomeReady(slot, there, nowMs);
    this.#host.records.updated(slot);
    this.#host.offer(there, nowMs);
    this.#host.drop(there);
    this.#host.freed(tube, nowMs);
    this.#host.drop(tube);
  }

  /** Counts the return of a held job, which is not a lost attempt. */
  #excuse(slot: number, tube: Tube, nowMs: number): void {
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.handedOn(slot, tube, nowMs);
    page.releases[row] = page.releases[row]! + 1;
    this.#host.policies.excused(slot, tube);
  }

  /**
   * Returns the job's properties after a change that needs another shard; the job here stays
   * unchanged.
   */
  changedFacts(slot: number, { pri, ttrSeconds, ttlMs }: JobChange, nowMs: number): ChangedFacts {
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    const extras = page.extras!;
    const isHeld = page.state[row] === JobState.Reserved;
    const expiresAtMs = ttlMs === 0 ? 0 : nowMs + (ttlMs ?? 0);
    const isExcused = isHeld && this.#host.policies.excuses(this.#host.queues.tubeOf(slot));
    return {
      pri: pri ?? page.pri[row]!,
      ttrSeconds: ttrSeconds ?? page.ttrSeconds[row]!,
      releases: page.releases[row]! + Number(isHeld),
      expiresAtMs: ttlMs === undefined ? extras.expiresAtMs[row]! : expiresAtMs,
      attemptsBase: extras.attemptsBase[row]! + Number(isExcused),
    };
  }

  /**
   * Notes that the holder returned a job or handed it to another shard, which counts as a release.
   */
  handedOn(slot: number, tube: Tube, nowMs: number): void {
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    this.#host.meter?.held(page.deadlineAtMs[row]!, page.ttrSeconds[row]!, nowMs);
    tube.releases++;
    this.#host.countRelease();
  }

  /** Makes the job ready, or delayed by this time; returns it if held. */
  delay(slot: number, tube: Tube, delayMs: number, nowMs: number): void {
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    const before = page.state[row];
    page.delaySeconds[row] = Math.floor(delayMs / 1000);
    if (before === JobState.Ready && delayMs === 0) {
      this.#host.records.updated(slot);
      // The job may come from another tube or shard, and may have passed its TTL while it was held.
      this.#host.offer(tube, nowMs);
      this.#host.drop(tube);
      return;
    }
    if (before === JobState.Reserved) this.#excuse(slot, tube, nowMs);
    else if (before === JobState.Buried && this.#host.hasPolicy(slot, tube))
      this.#host.policies.kicked(slot, tube);
    this.#host.leave(slot);
    if (delayMs > 0) this.#host.queues.becomeDelayed(slot, tube, nowMs + delayMs);
    else this.#host.queues.becomeReady(slot, tube, nowMs);
    this.#host.records.updated(slot);
    // The job may have expired while it was held or buried.
    this.#host.offer(tube, nowMs);
    this.#host.drop(tube);
  }

  /**
   * Moves a ready, delayed or buried job to another tube of this shard. With `asReady`, a move into
   * its own tube is a kick.
   */
  move(slot: number, target: string, asReady: boolean, nowMs: number): MoveOutcome {
    const tube = this.#host.queues.tubeOf(slot);
    const page = this.#host.jobs.pageOf(slot);
    const row = rowOf(slot);
    const state = page.state[row];
    assert(state !== JobState.Reserved, "a reserved job is its holder's");
    if (target === tube.name) {
      if (!asReady || state === JobState.Ready) return MoveOutcome.Stays;
      this.#host.kick(slot, tube, nowMs);
      return MoveOutcome.Moved;
    }
    if (!this.#host.ownsTube(target)) return MoveOutcome.Elsewhere;
    const there = this.#host.tubes.open(target);
    if (this.#host.policies.isFull(there, page.bodyBytes[row]!)) {
      this.#host.drop(there);
      return MoveOutcome.Full;
    }
    this.#host.queues.leave(slot);
    this.#host.policies.moveTo(slot, tube, target, asReady, nowMs);
    this.#host.offer(there, nowMs);
    this.#host.drop(there);
    this.#host.drop(tube);
    return MoveOutcome.Moved;
  }

  /** Returns the tube in which a dead job died, or "". */
  originOf(slot: number): string {
    return this.#host.policies.isDead(slot) ? this.#host.policies.originOf(slot) : "";
  }
}
