// The option `on-duplicate`: what a put does to a waiting job that already has its unique key.

import { assert } from "../base/assert.ts";
import { ATTRIBUTE_BYTES_MAX, Attribute } from "../protocol/job-attribute.ts";
import { OnDuplicate } from "../protocol/job-options.ts";
import { JobChanges } from "./job-changes.ts";
import type { JobAttributes } from "./jobs/job-attributes.ts";
import { JobState, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import type { NewJob } from "./jobs/new-job.ts";
import { Outcome } from "./jobs/outcome.ts";
import { weighs } from "./policies/group-membership.ts";
import { PutVerdict } from "./policies/put-verdict.ts";
import { textAttribute } from "./policies/stored-attributes.ts";

/**
 * Maximum bytes of a body that replaces another. It has to fit into one record: if the server died
 * before the last of several, the log would take the first for the whole job.
 */
export const REPLACING_BODY_BYTES_MAX: number = 64 * 1024;

export class Duplicates extends JobChanges {
  /**
   * Continues a put that was refused as a duplicate of `id`, in the same turn. Only Replaced takes
   * the body. Duplicate means that the job isn't waiting, or is in another tube now, and nothing
   * has changed. Throws RangeError when memory is exhausted, before anything has changed.
   */
  putAgain(id: number, job: NewJob, body: number, attributes: JobAttributes, nowMs: number): Outcome {
    assert(attributes.hasKey, "only a put with a key has a duplicate");
    const slot = this.policies.duplicateHasLeft ? NO_SLOT : this.find(id);
    if (attributes.onDuplicate === OnDuplicate.Refuse) return Outcome.Duplicate;
    if (attributes.onDuplicate !== OnDuplicate.Replace && slot !== NO_SLOT) {
      const verdict = this.policies.flows.judgeAgain(slot, attributes, false);
      if (verdict !== PutVerdict.Welcome) return Outcome.Duplicate;
    }
    if (attributes.onDuplicate === OnDuplicate.Keep) return Outcome.Kept;
    if (slot === NO_SLOT) return Outcome.Duplicate;
    const state = this.jobs.pageOf(slot).state[rowOf(slot)];
    if (state !== JobState.Ready && state !== JobState.Delayed) return Outcome.Duplicate;
    if (attributes.onDuplicate === OnDuplicate.Replace)
      return this.#replace(slot, job, body, attributes, nowMs);
    return attributes.onDuplicate === OnDuplicate.Escalate
      ? this.#escalate(slot, job)
      : this.#debounce(slot, job, attributes, nowMs);
  }

  /**
   * Gives a waiting job the body, priority and times of a put, and its other attributes as far as
   * it names them. The job keeps its id, age and group, so a put that names another group is
   * refused.
   */
  #replace(slot: number, job: NewJob, body: number, attributes: JobAttributes, nowMs: number): Outcome {
    const stored = this.policies.attributes;
    const fixed = stored.mergedWith(slot, attributes);
    const refusal = this.#refusalOf(slot, job, attributes, fixed.length);
    if (refusal !== Outcome.Done) return refusal;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const tube = this.tubeOf(slot);
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
    if (attributes.namesBatch) this.jobs.makeFlows(page);
    // This is the last step that may fail.
    const cell = stored.store(fixed);
    this.queues.expireAt(slot, tube, attributes.expiresAtMs > 0 ? attributes.expiresAtMs : usualMs);
    this.queues.reprioritise(slot, tube, job.pri);
    this.queues.leave(slot);
    stored.exchange(page.extras, row, cell, fixed.length, attributes.untilReserve);
    if (attributes.uniqueUntilMs > 0) this.policies.keys.lastUntil(slot, attributes.uniqueUntilMs);
    const isLost = attributes.lost !== undefined && !this.batches.waits(slot);
    if (attributes.namesBatch) this.batches.join(slot, attributes);
    this.bodies.free(page.body[row]!);
    page.body[row] = body;
    page.bodyBytes[row] = job.bodyBytes;
    tube.bytes += growth;
    assert(tube.bytes >= 0, "the bytes of a replaced body were counted");
    page.delaySeconds[row] = job.delaySeconds;
    page.ttrSeconds[row] = job.ttrSeconds;
    if (isLost) this.beginLost(slot, tube, attributes.lost!, nowMs);
    else if (delayMs > 0 || this.batches.waits(slot)) this.queues.becomeDelayed(slot, tube, fromMs + delayMs);
    else this.queues.becomeReady(slot, tube, nowMs);
    this.records?.replaced(slot);
    if (weighs(attributes)) this.store.weighGroup(slot, tube);
    this.meter?.stored(job.bodyBytes);
    this.runDueAndServe(tube, nowMs);
    return Outcome.Replaced;
  }

  /** Returns why a waiting job isn't replaced, or Done, before anything has changed. */
  #refusalOf(slot: number, job: NewJob, attributes: JobAttributes, fixedBytes: number): Outcome {
    const verdict = this.policies.flows.judgeAgain(slot, attributes, true);
    if (verdict === PutVerdict.BatchOrder) return Outcome.BatchOrder;
    if (verdict !== PutVerdict.Welcome || this.#namesOtherGroup(slot, attributes)) return Outcome.Duplicate;
    const fixedGrowth = Math.max(0, fixedBytes - this.policies.attributes.fixedAttributes(slot).length);
    if (
      job.bodyBytes > REPLACING_BODY_BYTES_MAX ||
      fixedBytes > ATTRIBUTE_BYTES_MAX ||
      this.records?.fitsOneRecord(slot, job.bodyBytes + fixedGrowth) === false
    )
      return Outcome.TooBig;
    const tube = this.tubeOf(slot);
    const growth = job.bodyBytes - this.jobs.pageOf(slot).bodyBytes[rowOf(slot)]!;
    if (tube.policy !== undefined && growth > 0 && tube.bytes + growth > tube.policy.maxBytes) {
      tube.counts.rejected++;
      this.putRefusals++;
      return Outcome.TubeFull;
    }
    return this.records?.roomForPut() === false ? Outcome.NoRoom : Outcome.Done;
  }

  #namesOtherGroup(slot: number, { fixed }: JobAttributes): boolean {
    const group = textAttribute(fixed.bytes, fixed.length, Attribute.Group);
    if (group === "") return false;
    const own = this.policies.attributes.fixedAttributes(slot);
    return group !== textAttribute(own, own.length, Attribute.Group);
  }

  /** Raises the priority of a waiting job to that of a put. */
  #escalate(slot: number, { pri }: NewJob): Outcome {
    if (pri >= this.jobs.pageOf(slot).pri[rowOf(slot)]!) return Outcome.Kept;
    this.queues.reprioritise(slot, this.tubeOf(slot), pri);
    assert(this.jobs.pageOf(slot).pri[rowOf(slot)] === pri, "a priority fits into its column");
    this.records?.updated(slot);
    return Outcome.Escalated;
  }

  /**
   * Postpones a delayed job until the delay of a put is over, within the total time that the put
   * allows. A ready job stays ready.
   */
  #debounce(slot: number, job: NewJob, { debounceMaxMs }: JobAttributes, nowMs: number): Outcome {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    if (page.state[row] !== JobState.Delayed) return Outcome.Kept;
    const askedMs = Math.max(nowMs, job.atMs) + job.delaySeconds * 1000 + job.delayMillis;
    const latestMs = debounceMaxMs > 0 ? page.createdAtMs[row]! + debounceMaxMs : Infinity;
    const untilMs = Math.min(askedMs, latestMs);
    if (untilMs <= page.deadlineAtMs[row]!) return Outcome.Kept;
    this.queues.leave(slot);
    page.delaySeconds[row] = job.delaySeconds;
    this.queues.becomeDelayed(slot, this.tubeOf(slot), untilMs);
    this.records?.updated(slot);
    return Outcome.Debounced;
  }
}
