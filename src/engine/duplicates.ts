// The option `on-duplicate`: what a put does to a waiting job that already has its unique key.

import { assert } from "../base/assert.ts";
import { OnDuplicate } from "../protocol/job-options.ts";
import { JobChanges } from "./job-changes.ts";
import type { JobAttributes } from "./jobs/job-attributes.ts";
import { JobState, NO_SLOT, rowOf } from "./jobs/job-table.ts";
import type { NewJob } from "./jobs/new-job.ts";
import { Outcome } from "./jobs/outcome.ts";

/**
 * Maximum bytes of a body that replaces another. It has to fit into one record: if the server died
 * before the last of several, the log would take the first for the whole job.
 */
export const REPLACING_BODY_BYTES_MAX: number = 64 * 1024;

export class Duplicates extends JobChanges {
  /**
   * Continues a put that was refused as a duplicate of `id`, in the same turn. Only Replaced takes
   * the body. Duplicate means that the job isn't waiting, and nothing has changed. Throws
   * RangeError when memory is exhausted, before anything has changed.
   */
  putAgain(id: number, job: NewJob, body: number, attributes: JobAttributes, nowMs: number): Outcome {
    assert(attributes.hasKey, "only a put with a key has a duplicate");
    if (attributes.onDuplicate === OnDuplicate.Keep) return Outcome.Kept;
    const slot = this.find(id);
    if (attributes.onDuplicate === OnDuplicate.Refuse || slot === NO_SLOT) return Outcome.Duplicate;
    const state = this.jobs.pageOf(slot).state[rowOf(slot)];
    if (state !== JobState.Ready && state !== JobState.Delayed) return Outcome.Duplicate;
    if (attributes.onDuplicate === OnDuplicate.Replace)
      return this.#replace(slot, job, body, attributes, nowMs);
    return attributes.onDuplicate === OnDuplicate.Escalate
      ? this.#escalate(slot, job)
      : this.#debounce(slot, job, attributes, nowMs);
  }

  /** Gives a waiting job the body, priority and times of a put. It keeps its id, age and group. */
  #replace(slot: number, job: NewJob, body: number, attributes: JobAttributes, nowMs: number): Outcome {
    if (
      job.bodyBytes > REPLACING_BODY_BYTES_MAX ||
      this.records?.fitsOneRecord(slot, job.bodyBytes) === false
    )
      return Outcome.TooBig;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    const tube = this.tubeOf(slot);
    const growth = job.bodyBytes - page.bodyBytes[row]!;
    if (tube.policy !== undefined && growth > 0 && tube.bytes + growth > tube.policy.maxBytes) {
      tube.counts.rejected++;
      this.putRefusals++;
      return Outcome.TubeFull;
    }
    if (this.records?.roomForPut() === false) return Outcome.NoRoom;
    const delayMs = job.delaySeconds * 1000 + job.delayMillis;
    const fromMs = Math.max(nowMs, job.atMs);
    const ttlMs = tube.policy?.ttlMs ?? 0;
    const usualMs = ttlMs > 0 ? fromMs + ttlMs : 0;
    (delayMs > 0 ? tube.delayed : tube.ready).makeRoom();
    assert(page.extras !== undefined, "a job with a key has extras");
    // The ready queue makes room only for jobs without a group.
    tube.groups?.makeRoom(page.extras.groupRow[row]!);
    tube.expiry.makeRoom();
    this.queues.expireAt(slot, tube, attributes.expiresAtMs > 0 ? attributes.expiresAtMs : usualMs);
    this.queues.reprioritise(slot, tube, job.pri);
    this.queues.leave(slot);
    this.bodies.free(page.body[row]!);
    page.body[row] = body;
    page.bodyBytes[row] = job.bodyBytes;
    tube.bytes += growth;
    assert(tube.bytes >= 0, "the bytes of a replaced body were counted");
    page.delaySeconds[row] = job.delaySeconds;
    page.ttrSeconds[row] = job.ttrSeconds;
    if (delayMs > 0 || this.batches.waits(slot)) this.queues.becomeDelayed(slot, tube, fromMs + delayMs);
    else this.queues.becomeReady(slot, tube, nowMs);
    this.records?.replaced(slot);
    this.meter?.stored(job.bodyBytes);
    this.runDueAndServe(tube, nowMs);
    return Outcome.Replaced;
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
