// Changes to jobs by `update-job` and `move-jobs`: priority, times, tube.

import { assert, CHECKED } from "../base/assert.ts";
import { JobCounter } from "../schema/job.ts";
import { JobCommands } from "./job-commands.ts";
import { ENDS, type End } from "./jobs/ends.ts";
import { JobState, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import type { ChangedFacts, JobChange } from "./jobs/new-job.ts";
import { Outcome } from "./jobs/outcome.ts";
import type { Tube } from "./tubes/tube.ts";
import type { Session } from "./waiting/session.ts";
import { MoveOutcome } from "./walks/tube-moving.ts";

export class JobChanges extends JobCommands {
  /**
   * Changes a job that this session or no session holds. A delay returns a held job, as ready or
   * delayed; that counts as a release, but not as a lost attempt. Returns OtherShard if the change
   * is allowed but needs a tube of another shard. Throws RangeError when memory is exhausted,
   * before anything has changed.
   */
  update(session: Session, id: number, change: JobChange, nowMs: number): Outcome {
    this.runDue(nowMs);
    const slot = this.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const tube = this.tubeOf(slot);
    const refusal = this.#refusalOf(session, slot, tube, change);
    return refusal === Outcome.Done ? this.#update(session, slot, tube, change, nowMs) : refusal;
  }

  #update(session: Session, slot: number, tube: Tube, change: JobChange, nowMs: number): Outcome {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(page.state[row] !== JobState.Moving, "a job in transit is not changed");
    const isHeld = page.state[row] === JobState.Reserved;
    assert(!isHeld || page.holder[row] === session.index, "only its holder changes a reserved job");
    const { pri, ttrSeconds, delayMs, ttlMs, tube: target } = change;
    // This must precede the change of the TTR, from which the hold time is computed.
    if (isHeld && (target !== undefined || delayMs !== undefined))
      this.#countReturn(slot, tube, change, nowMs);
    if (ttlMs !== undefined) this.queues.expireAt(slot, tube, ttlMs === 0 ? 0 : nowMs + ttlMs);
    if (pri !== undefined) this.queues.reprioritise(slot, tube, pri);
    if (ttrSeconds !== undefined) page.ttrSeconds[row] = ttrSeconds;
    if (target !== undefined && (isHeld || target !== tube.name)) {
      this.#updateTube(slot, tube, target, delayMs, nowMs);
      return Outcome.Done;
    }
    if (delayMs !== undefined) {
      this.delay(slot, tube, delayMs, nowMs);
      return Outcome.Done;
    }
    this.#stays(session, slot, tube, ttrSeconds !== undefined, nowMs);
    return Outcome.Done;
  }

  /** Completes the change of a job that stays in its state. */
  #stays(session: Session, slot: number, tube: Tube, isRenewed: boolean, nowMs: number): void {
    const state = this.jobs.pageOf(slot).state[rowOf(slot)];
    assert(state !== JobState.Free, "a changed job exists");
    if (isRenewed && state === JobState.Reserved) {
      this.queues.renew(slot, session, nowMs);
      this.sessionTimers.set(session);
    } else if (state === JobState.Buried) {
      // Its record puts the job behind the other buried ones, and a restart must not change their
      // order.
      this.queues.leave(slot);
      this.queues.becomeBuried(slot, tube, nowMs);
    }
    this.records?.updated(slot);
  }

  /**
   * Returns whether the change is allowed, before anything changes. Throws RangeError when memory
   * is exhausted.
   */
  #refusalOf(session: Session, slot: number, tube: Tube, { ttlMs, tube: target }: JobChange): Outcome {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] === JobState.Moving) return Outcome.NotFound;
    if (page.state[row] === JobState.Reserved && page.holder[row] !== session.index) return Outcome.NotFound;
    if (ttlMs !== undefined || target !== undefined) page.makeExtras();
    if (target === undefined || target === tube.name) return Outcome.Done;
    if (!this.ownsTube(target)) return Outcome.OtherShard;
    const there = this.tubes.open(target);
    const isFull = this.policies.isFull(there, page.bodyBytes[row]!);
    this.dropIfUnused(there);
    return isFull ? Outcome.TubeFull : Outcome.Done;
  }

  /**
   * Moves the job to another tube. A held job is returned there, which is a release, but not a lost
   * attempt.
   */
  #updateTube(slot: number, tube: Tube, target: string, delayMs: number | undefined, nowMs: number): void {
    if (CHECKED) assert(this.ownsTube(target), "a job moves within its shard to a tube of its shard");
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Reserved) {
      this.queues.leave(slot);
      const there = this.policies.moveTo(slot, tube, target, false, nowMs);
      if (delayMs !== undefined) this.delay(slot, there, delayMs, nowMs);
      else {
        // A dead job revives, and may have passed a TTL that it got since its death.
        this.runDueAndServe(there, nowMs);
        this.dropIfUnused(there);
      }
      this.dropIfUnused(tube);
    } else if (target === tube.name) this.delay(slot, tube, delayMs ?? 0, nowMs);
    else this.#handOn(slot, tube, target, delayMs ?? 0, nowMs);
  }

  #handOn(slot: number, tube: Tube, target: string, delayMs: number, nowMs: number): void {
    assert(target !== tube.name, "a job is moved to another tube");
    this.leave(slot, nowMs);
    const there = this.store.changeTube(slot, tube, target, nowMs);
    const page = this.jobs.pageOf(slot);
    page.delaySeconds[rowOf(slot)] = Math.floor(delayMs / 1000);
    if (delayMs > 0) this.queues.becomeDelayed(slot, there, nowMs + delayMs);
    else this.queues.becomeReady(slot, there, nowMs);
    this.records?.updated(slot);
    this.runDueAndServe(there, nowMs);
    this.dropIfUnused(there);
    this.serveIfLimited(tube, nowMs);
    this.dropIfUnused(tube);
  }

  /** Counts the return of a held job. */
  #countReturn(slot: number, tube: Tube, change: JobChange, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(page.state[row] === JobState.Reserved, "only a holder returns a job");
    this.handedOn(slot, tube, nowMs);
    page.addTo(row, JobCounter.releases);
    if (!endOf(change).isAttempt) this.policies.excused(slot);
  }

  /**
   * Returns the job's properties after a change that needs another shard; the job here stays
   * unchanged.
   */
  changedFacts(slot: number, change: JobChange, nowMs: number): ChangedFacts {
    const { pri, ttrSeconds, ttlMs } = change;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const { extras } = page;
    assert(extras !== undefined, "a job that changes its tube has extras");
    const isHeld = page.state[row] === JobState.Reserved;
    const expiresAtMs = ttlMs === 0 ? 0 : nowMs + (ttlMs ?? 0);
    assert(expiresAtMs >= 0, "a job expires at a time, or never");
    const isExcused = isHeld && !endOf(change).isAttempt;
    return {
      pri: pri ?? page.pri[row]!,
      ttrSeconds: ttrSeconds ?? page.ttrSeconds[row]!,
      releases: page.count(row, JobCounter.releases) + Number(isHeld),
      expiresAtMs: ttlMs === undefined ? extras.expiresAtMs[row]! : expiresAtMs,
      attemptsBase: extras.attemptsBase[row]! + Number(isExcused),
    };
  }

  /**
   * Notes that the holder returned a job or handed it to another shard, which counts as a release.
   */
  protected handedOn(slot: number, tube: Tube, nowMs: number): void {
    if (this.meter !== undefined) this.meterHold(this.meter, slot, nowMs);
    tube.releases++;
    this.jobReleases++;
  }

  /** Makes the job ready, or delayed by this time. The return of a held job is already counted. */
  protected delay(slot: number, tube: Tube, delayMs: number, nowMs: number): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const before = page.state[row];
    assert(before !== JobState.Free && before !== JobState.Moving, "only a job on this shard is delayed");
    page.delaySeconds[row] = Math.floor(delayMs / 1000);
    // For a job that waits for a batch, the new delay applies after the wait.
    if ((before === JobState.Ready && delayMs === 0) || this.batches.waits(slot)) {
      this.records?.updated(slot);
      // The job may come from another tube or shard, and may have passed its TTL while it was held.
      this.runDueAndServe(tube, nowMs);
      this.dropIfUnused(tube);
      return;
    }
    if (before === JobState.Buried && this.policies.applyTo(slot, tube)) this.policies.kicked(slot, tube);
    this.leave(slot, nowMs);
    if (delayMs > 0) this.queues.becomeDelayed(slot, tube, nowMs + delayMs);
    else this.queues.becomeReady(slot, tube, nowMs);
    this.records?.updated(slot);
    // The job may have expired while it was held or buried.
    this.runDueAndServe(tube, nowMs);
    this.dropIfUnused(tube);
  }

  /**
   * Moves a ready, delayed or buried job to another tube of this shard. With `asReady`, a move into
   * its own tube is a kick.
   */
  move(slot: number, target: string, asReady: boolean, nowMs: number): MoveOutcome {
    const tube = this.tubeOf(slot);
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const state = page.state[row];
    assert(state !== JobState.Reserved, "a reserved job belongs to its holder");
    assert(state !== JobState.Free && state !== JobState.Moving, "only a job on this shard is moved");
    if (target === tube.name) {
      if (!asReady || state === JobState.Ready || this.batches.waits(slot)) return MoveOutcome.Stays;
      this.kickOne(slot, tube, nowMs);
      return MoveOutcome.Moved;
    }
    if (!this.ownsTube(target)) return MoveOutcome.Elsewhere;
    const there = this.tubes.open(target);
    if (this.policies.isFull(there, page.bodyBytes[row]!)) {
      this.dropIfUnused(there);
      return MoveOutcome.Full;
    }
    this.queues.leave(slot);
    this.policies.moveTo(slot, tube, target, asReady, nowMs);
    this.runDueAndServe(there, nowMs);
    this.dropIfUnused(there);
    this.dropIfUnused(tube);
    return MoveOutcome.Moved;
  }

  /**
   * Restores all attempts of a dead job that is ready in the tube where it died. This happens in a
   * tube that is its own dead-letter tube. Returns false for a job in another state.
   */
  revive(slot: number): boolean {
    const page = this.jobs.pageOf(slot);
    if (page.state[rowOf(slot)] !== JobState.Ready) return false;
    this.policies.kicked(slot, this.tubeOf(slot));
    this.records?.updated(slot);
    return true;
  }

  /** Returns the tube in which a dead job died, or "". */
  originOf(slot: number): string {
    return this.policies.deaths.isDead(slot) ? this.policies.attributes.originOf(slot) : "";
  }
}

/** Returns how a change that returns a held job ends its reservation. */
function endOf({ tube }: JobChange): End {
  return tube === undefined ? ENDS.Updated : ENDS.HandedOn;
}
