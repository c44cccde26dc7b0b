// Changes to jobs by `update-job` and `move-jobs`, and by a put whose unique key a job has.

import { assert, CHECKED } from "../base/assert.ts";
import { ATTRIBUTE_BYTES_MAX, Attribute } from "../protocol/job-attribute.ts";
import { OnDuplicate } from "../protocol/option-rows.ts";
import { JobCounter } from "../schema/job.ts";
import { MoveOutcome } from "./job-walk.ts";
import { ENDS, type End, Outcome } from "./jobs/ends.ts";
import { JobState, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import type { ChangedFacts, JobAttributes, JobChange, NewJob } from "./jobs/new-job.ts";
import { textAttribute, weighs } from "./policies/job-store.ts";
import { PutVerdict } from "./policies/policies.ts";
import type { QueueCore } from "./queue-core.ts";
import type { Session } from "./state/session.ts";
import type { Tube } from "./tubes/tube.ts";

/**
 * Maximum bytes of a body that replaces another. It has to fit into one record: if the server died
 * before the last of several, the log would take the first for the whole job.
 */
export const REPLACING_BODY_BYTES_MAX: number = 64 * 1024;

export class JobChanges {
  readonly #core: QueueCore;

  constructor(core: QueueCore) {
    this.#core = core;
  }

  /**
   * Changes a job that this session or no session holds. A delay returns a held job, as ready or
   * delayed; that counts as a release, but not as a lost attempt. Returns OtherShard if the change
   * is allowed but needs a tube of another shard. Throws RangeError when memory is exhausted,
   * before anything has changed.
   */
  update(session: Session, id: number, change: JobChange, nowMs: number): Outcome {
    this.#core.runDue(nowMs);
    const slot = this.#core.find(id);
    if (slot === NO_SLOT) return Outcome.NotFound;
    const tube = this.#core.tubeOf(slot);
    const refusal = this.#refusalOf(session, slot, tube, change);
    return refusal === Outcome.Done ? this.#update(session, slot, tube, change, nowMs) : refusal;
  }

  #update(session: Session, slot: number, tube: Tube, change: JobChange, nowMs: number): Outcome {
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(page.state[row] !== JobState.Moving, "a job in transit is not changed");
    const isHeld = page.state[row] === JobState.Reserved;
    assert(!isHeld || page.holder[row] === session.index, "only its holder changes a reserved job");
    const { pri, ttrSeconds, delayMs, ttlMs, tube: target } = change;
    // This must precede the change of the TTR, from which the hold time is computed.
    if (isHeld && (target !== undefined || delayMs !== undefined))
      this.#countReturn(slot, tube, change, nowMs);
    if (ttlMs !== undefined && !this.#core.policies.isCancelled(slot))
      this.#core.queues.expireAt(slot, tube, ttlMs === 0 ? 0 : nowMs + ttlMs);
    if (pri !== undefined) this.#core.queues.reprioritise(slot, tube, pri);
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
    const state = this.#core.jobs.pageOf(slot).state[rowOf(slot)];
    assert(state !== JobState.Free, "a changed job exists");
    if (isRenewed && state === JobState.Reserved) {
      this.#core.queues.renew(slot, session, nowMs);
      this.#core.sessionTimers.set(session);
    } else if (state === JobState.Buried) {
      // Its record puts the job behind the other buried ones, and a restart must not change their
      // order.
      this.#core.queues.leave(slot);
      this.#core.queues.becomeBuried(slot, tube, nowMs);
    }
    this.#core.records?.updated(slot);
    // A job that costs less may be next now.
    this.#core.serveIfLimited(tube, nowMs);
  }

  /**
   * Returns whether the change is allowed, before anything changes. Throws RangeError when memory
   * is exhausted.
   */
  #refusalOf(session: Session, slot: number, tube: Tube, { ttlMs, tube: target }: JobChange): Outcome {
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] === JobState.Moving) return Outcome.NotFound;
    if (page.state[row] === JobState.Reserved && page.holder[row] !== session.index) return Outcome.NotFound;
    if (ttlMs !== undefined || target !== undefined) page.makeExtras();
    if (target === undefined || target === tube.name) return Outcome.Done;
    if (!this.#core.ownsTube(target)) return Outcome.OtherShard;
    const there = this.#core.tubes.open(target);
    const isFull = this.#core.policies.isFull(there, page.bodyBytes[row]!);
    this.#core.dropIfUnused(there);
    return isFull ? Outcome.TubeFull : Outcome.Done;
  }

  /**
   * Moves the job to another tube. A held job is returned there, which is a release, but not a lost
   * attempt.
   */
  #updateTube(slot: number, tube: Tube, target: string, delayMs: number | undefined, nowMs: number): void {
    if (CHECKED) assert(this.#core.ownsTube(target), "a job moves within its shard to a tube of its shard");
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Reserved) {
      this.#core.queues.leave(slot);
      const there = this.#core.policies.moveTo(slot, tube, target, false, nowMs);
      if (delayMs !== undefined) this.delay(slot, there, delayMs, nowMs);
      else {
        // A dead job revives, and may have passed a TTL that it got since its death.
        this.#core.runDueAndServe(there, nowMs);
        this.#core.dropIfUnused(there);
      }
      this.#core.serveIfLimited(tube, nowMs);
      this.#core.dropIfUnused(tube);
    } else if (target === tube.name) this.delay(slot, tube, delayMs ?? 0, nowMs);
    else this.#handOn(slot, tube, target, delayMs ?? 0, nowMs);
  }

  #handOn(slot: number, tube: Tube, target: string, delayMs: number, nowMs: number): void {
    assert(target !== tube.name, "a job is moved to another tube");
    this.#core.leave(slot, nowMs);
    const there = this.#core.store.changeTube(slot, tube, target, nowMs);
    const page = this.#core.jobs.pageOf(slot);
    page.delaySeconds[rowOf(slot)] = Math.floor(delayMs / 1000);
    if (delayMs > 0) this.#core.queues.becomeDelayed(slot, there, nowMs + delayMs);
    else this.#core.queues.becomeReady(slot, there, nowMs);
    this.#core.records?.updated(slot);
    this.#core.runDueAndServe(there, nowMs);
    this.#core.dropIfUnused(there);
    this.#core.serveIfLimited(tube, nowMs);
    this.#core.dropIfUnused(tube);
  }

  /** Counts the return of a held job. */
  #countReturn(slot: number, tube: Tube, change: JobChange, nowMs: number): void {
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    assert(page.state[row] === JobState.Reserved, "only a holder returns a job");
    this.handedOn(slot, tube, nowMs);
    page.addTo(row, JobCounter.releases);
    if (!endOf(change).isAttempt) this.#core.policies.excused(slot);
  }

  /**
   * Returns the job's properties after a change that needs another shard; the job here stays
   * unchanged.
   */
  changedFacts(slot: number, change: JobChange, nowMs: number): ChangedFacts {
    const { pri, ttrSeconds, ttlMs } = change;
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    const { extras } = page;
    assert(extras !== undefined, "a job that changes its tube has extras");
    const isHeld = page.state[row] === JobState.Reserved;
    const expiresAtMs = ttlMs === 0 ? 0 : nowMs + (ttlMs ?? 0);
    const isExcused = isHeld && !endOf(change).isAttempt;
    return {
      pri: pri ?? page.pri[row]!,
      ttrSeconds: ttrSeconds ?? page.ttrSeconds[row]!,
      releases: page.count(row, JobCounter.releases) + Number(isHeld),
      expiresAtMs: ttlMs === undefined || extras.isCancelled(row) ? extras.expiresAtMs[row]! : expiresAtMs,
      attemptsBase: extras.attemptsBase[row]! + Number(isExcused),
    };
  }

  /**
   * Notes that the holder returned a job or handed it to another shard, which counts as a release.
   */
  handedOn(slot: number, tube: Tube, nowMs: number): void {
    if (this.#core.meter !== undefined) this.#core.meterHold(this.#core.meter, slot, nowMs);
    tube.releases++;
    this.#core.jobReleases++;
  }

  /** Makes the job ready, or delayed by this time. The return of a held job is already counted. */
  delay(slot: number, tube: Tube, delayMs: number, nowMs: number): void {
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    const before = page.state[row];
    assert(before !== JobState.Free && before !== JobState.Moving, "only a job on this shard is delayed");
    page.delaySeconds[row] = Math.floor(delayMs / 1000);
    // For a job that waits for a batch, the new delay applies after the wait.
    if ((before === JobState.Ready && delayMs === 0) || this.#core.batches.waits(slot)) {
      this.#core.records?.updated(slot);
      // The job may come from another tube or shard, and may have passed its TTL while it was held.
      this.#core.runDueAndServe(tube, nowMs);
      this.#core.dropIfUnused(tube);
      return;
    }
    if (before === JobState.Buried && this.#core.policies.applyTo(slot, tube))
      this.#core.policies.kicked(slot, tube);
    this.#core.leave(slot, nowMs);
    if (delayMs > 0) this.#core.queues.becomeDelayed(slot, tube, nowMs + delayMs);
    else this.#core.queues.becomeReady(slot, tube, nowMs);
    this.#core.records?.updated(slot);
    // The job may have expired while it was held or buried.
    this.#core.runDueAndServe(tube, nowMs);
    this.#core.dropIfUnused(tube);
  }

  /**
   * Moves a ready, delayed or buried job to another tube of this shard. With `asReady`, a move into
   * its own tube is a kick.
   */
  move(slot: number, target: string, asReady: boolean, nowMs: number): MoveOutcome {
    const tube = this.#core.tubeOf(slot);
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    const state = page.state[row];
    assert(state !== JobState.Reserved, "a reserved job belongs to its holder");
    assert(state !== JobState.Free && state !== JobState.Moving, "only a job on this shard is moved");
    if (target === tube.name) {
      if (!asReady || state === JobState.Ready || this.#core.batches.waits(slot)) return MoveOutcome.Stays;
      this.#core.kickOne(slot, tube, nowMs);
      return MoveOutcome.Moved;
    }
    if (!this.#core.ownsTube(target)) return MoveOutcome.Elsewhere;
    const there = this.#core.tubes.open(target);
    if (this.#core.policies.isFull(there, page.bodyBytes[row]!)) {
      this.#core.dropIfUnused(there);
      return MoveOutcome.Full;
    }
    this.#core.queues.leave(slot);
    this.#core.policies.moveTo(slot, tube, target, asReady, nowMs);
    this.#core.runDueAndServe(there, nowMs);
    this.#core.dropIfUnused(there);
    this.#core.serveIfLimited(tube, nowMs);
    this.#core.dropIfUnused(tube);
    return MoveOutcome.Moved;
  }

  /**
   * Restores all attempts of a dead job that is ready in the tube where it died. This happens in a
   * tube that is its own dead-letter tube. Returns false for a job in another state.
   */
  revive(slot: number): boolean {
    const page = this.#core.jobs.pageOf(slot);
    if (page.state[rowOf(slot)] !== JobState.Ready) return false;
    this.#core.policies.kicked(slot, this.#core.tubeOf(slot));
    this.#core.records?.updated(slot);
    return true;
  }

  /** Returns the tube in which a dead job died, or "". */
  originOf(slot: number): string {
    return this.#core.policies.deaths.isDead(slot) ? this.#core.policies.attributes.originOf(slot) : "";
  }

  // --- a put with a taken key: the option `on-duplicate` -----------------------------------------

  /**
   * Continues a put that was refused as a duplicate of `id`, in the same turn. Only Replaced takes
   * the body. Duplicate means that the job isn't waiting, or is in another tube now, and nothing
   * has changed. Throws RangeError when memory is exhausted, before anything has changed.
   */
  putAgain(id: number, job: NewJob, body: number, attributes: JobAttributes, nowMs: number): Outcome {
    assert(attributes.hasKey, "only a put with a key has a duplicate");
    const slot = this.#core.policies.duplicateHasLeft ? NO_SLOT : this.#core.find(id);
    if (attributes.onDuplicate === OnDuplicate.Refuse) return Outcome.Duplicate;
    if (attributes.onDuplicate !== OnDuplicate.Replace && slot !== NO_SLOT) {
      const verdict = this.#core.policies.flows.judgeAgain(slot, attributes, false);
      if (verdict !== PutVerdict.Welcome) return Outcome.Duplicate;
    }
    if (attributes.onDuplicate === OnDuplicate.Keep) return Outcome.Kept;
    if (slot === NO_SLOT) return Outcome.Duplicate;
    const state = this.#core.jobs.pageOf(slot).state[rowOf(slot)];
    if (state !== JobState.Ready && state !== JobState.Delayed) return Outcome.Duplicate;
    if (this.#core.policies.isCancelled(slot)) return Outcome.Duplicate;
    if (attributes.onDuplicate === OnDuplicate.Replace)
      return this.#replace(slot, job, body, attributes, nowMs);
    return attributes.onDuplicate === OnDuplicate.Escalate
      ? this.#escalate(slot, job, nowMs)
      : this.#debounce(slot, job, attributes, nowMs);
  }

  /**
   * Gives a waiting job the body, priority and times of a put, and its other attributes as far as
   * it names them. The job keeps its id, age and group, so a put that names another group is
   * refused.
   */
  #replace(slot: number, job: NewJob, body: number, attributes: JobAttributes, nowMs: number): Outcome {
    const stored = this.#core.policies.attributes;
    const fixed = stored.mergedWith(slot, attributes);
    const refusal = this.#refusalOfReplacing(slot, job, attributes, fixed.length);
    if (refusal !== Outcome.Done) return refusal;
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    const tube = this.#core.tubeOf(slot);
    const growth = job.bodyBytes - page.bodyBytes[row]!;
    const delayMs = job.delaySeconds * 1000 + job.delayMillis;
    const fromMs = Math.max(nowMs, job.atMs);
    const ttlMs = tube.policy?.ttlMs ?? 0;
    const usualMs = ttlMs > 0 ? fromMs + ttlMs : 0;
    (delayMs > 0 || attributes.after !== 0 ? tube.delayed : tube.ready).makeRoom();
    assert(page.extras !== undefined, "a job with a key has extras");
    // The ready queue makes room only for jobs without a group.
    tube.groups?.makeRoom(page.extras.groupRow[row]!);
    tube.expiry.makeRoom();
    if (attributes.namesBatch) this.#core.jobs.makeFlows(page);
    // This is the last step that may fail.
    const cell = stored.store(fixed);
    this.#core.queues.expireAt(slot, tube, attributes.expiresAtMs > 0 ? attributes.expiresAtMs : usualMs);
    this.#core.queues.reprioritise(slot, tube, job.pri);
    this.#core.queues.leave(slot);
    stored.exchange(page.extras, row, cell, fixed, attributes.untilReserve);
    if (attributes.uniqueUntilMs > 0) this.#core.policies.keys.lastUntil(slot, attributes.uniqueUntilMs);
    const isLost = attributes.lost !== undefined && !this.#core.batches.waits(slot);
    if (attributes.namesBatch) this.#core.batches.join(slot, attributes);
    this.#core.bodies.free(page.body[row]!);
    page.body[row] = body;
    page.bodyBytes[row] = job.bodyBytes;
    tube.bytes += growth;
    assert(tube.bytes >= 0, "the bytes of a replaced body were counted");
    page.delaySeconds[row] = job.delaySeconds;
    page.ttrSeconds[row] = job.ttrSeconds;
    if (isLost) this.#core.beginLost(slot, tube, attributes.lost!, nowMs);
    else if (delayMs > 0 || this.#core.batches.waits(slot))
      this.#core.queues.becomeDelayed(slot, tube, fromMs + delayMs);
    else this.#core.queues.becomeReady(slot, tube, nowMs);
    this.#core.records?.replaced(slot);
    if (weighs(attributes)) this.#core.store.weighGroup(slot, tube);
    this.#core.meter?.stored(job.bodyBytes);
    this.#core.runDueAndServe(tube, nowMs);
    return Outcome.Replaced;
  }

  /** Returns why a waiting job isn't replaced, or Done, before anything has changed. */
  #refusalOfReplacing(slot: number, job: NewJob, attributes: JobAttributes, fixedBytes: number): Outcome {
    const verdict = this.#core.policies.flows.judgeAgain(slot, attributes, true);
    if (verdict === PutVerdict.BatchOrder) return Outcome.BatchOrder;
    if (verdict !== PutVerdict.Welcome || this.#namesOtherGroup(slot, attributes)) return Outcome.Duplicate;
    const fixedGrowth = Math.max(0, fixedBytes - this.#core.policies.attributes.fixedAttributes(slot).length);
    if (
      job.bodyBytes > REPLACING_BODY_BYTES_MAX ||
      fixedBytes > ATTRIBUTE_BYTES_MAX ||
      this.#core.records?.fitsOneRecord(slot, job.bodyBytes + fixedGrowth) === false
    )
      return Outcome.TooBig;
    const tube = this.#core.tubeOf(slot);
    const growth = job.bodyBytes - this.#core.jobs.pageOf(slot).bodyBytes[rowOf(slot)]!;
    if (tube.policy !== undefined && growth > 0 && tube.bytes + growth > tube.policy.maxBytes) {
      tube.counts.rejected++;
      this.#core.putRefusals++;
      return Outcome.TubeFull;
    }
    return this.#core.records?.roomForPut() === false ? Outcome.NoRoom : Outcome.Done;
  }

  #namesOtherGroup(slot: number, { fixed }: JobAttributes): boolean {
    const group = textAttribute(fixed.bytes, fixed.length, Attribute.Group);
    if (group === "") return false;
    const own = this.#core.policies.attributes.fixedAttributes(slot);
    return group !== textAttribute(own, own.length, Attribute.Group);
  }

  /** Raises the priority of a waiting job to that of a put. */
  #escalate(slot: number, { pri }: NewJob, nowMs: number): Outcome {
    if (pri >= this.#core.jobs.pageOf(slot).pri[rowOf(slot)]!) return Outcome.Kept;
    const tube = this.#core.tubeOf(slot);
    this.#core.queues.reprioritise(slot, tube, pri);
    assert(this.#core.jobs.pageOf(slot).pri[rowOf(slot)] === pri, "a priority fits into its column");
    this.#core.records?.updated(slot);
    this.#core.serveIfLimited(tube, nowMs);
    return Outcome.Escalated;
  }

  /**
   * Postpones a delayed job until the delay of a put is over, within the total time that the put
   * allows. A ready job stays ready.
   */
  #debounce(slot: number, job: NewJob, { debounceMaxMs }: JobAttributes, nowMs: number): Outcome {
    const page = this.#core.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Delayed) return Outcome.Kept;
    const askedMs = Math.max(nowMs, job.atMs) + job.delaySeconds * 1000 + job.delayMillis;
    const latestMs = debounceMaxMs > 0 ? page.createdAtMs[row]! + debounceMaxMs : Infinity;
    const untilMs = Math.min(askedMs, latestMs);
    if (untilMs <= page.deadlineAtMs[row]!) return Outcome.Kept;
    this.#core.queues.leave(slot);
    page.delaySeconds[row] = job.delaySeconds;
    this.#core.queues.becomeDelayed(slot, this.#core.tubeOf(slot), untilMs);
    this.#core.records?.updated(slot);
    return Outcome.Debounced;
  }
}

/** Returns how a change that returns a held job ends its reservation. */
function endOf({ tube }: JobChange): End {
  return tube === undefined ? ENDS.Updated : ENDS.HandedOn;
}
