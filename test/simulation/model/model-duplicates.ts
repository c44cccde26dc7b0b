// What a put of the model does to the waiting job that has its key.

import { waits } from "./job-order.ts";
import type { ModelLog } from "./model-log.ts";
import type { OnDuplicateWord } from "./model-policies.ts";
import type { ModelQueues } from "./model-queues.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelTimers } from "./model-timers.ts";
import type { ModelJob } from "./model-types.ts";
import type { ModelWaits } from "./model-waits.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly log: ModelLog;
  readonly queues: ModelQueues;
  readonly timers: ModelTimers;
  readonly waiting: ModelWaits;
}

/** The put; times in ms, an expiry of 0 for none of its own. */
export interface RepeatedPut extends Pick<ModelJob, "pri" | "delaySeconds" | "ttrSeconds" | "body"> {
  readonly delayMs: number;
  readonly expiresAtMs: number;
}

export type DuplicateVerdict = "duplicate" | "kept" | "replaced" | "escalated" | "debounced" | "full";

export class ModelDuplicates {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  putAgain(
    shard: number,
    id: number,
    put: RepeatedPut,
    how: OnDuplicateWord,
    nowMs: number,
  ): DuplicateVerdict {
    if (how === "keep") return "kept";
    const job = this.#model.queues.on(shard, id);
    const isWaiting = job?.state === "ready" || job?.state === "delayed";
    if (how === "refuse" || job === undefined || !isWaiting) return "duplicate";
    if (how === "replace") return this.#replace(job, put, nowMs);
    if (how === "escalate") {
      if (put.pri >= job.pri) return "kept";
      job.pri = put.pri;
      // An earlier search for the best job has not seen this.
      job.readySince = this.#model.event;
      this.#model.log.keep(job);
      return "escalated";
    }
    if (job.state !== "delayed" || nowMs + put.delayMs <= job.deadlineAtMs) return "kept";
    job.delaySeconds = put.delaySeconds;
    this.#model.queues.becomeDelayed(job, nowMs, put.delayMs);
    this.#model.log.keep(job);
    return "debounced";
  }

  #replace(job: ModelJob, put: RepeatedPut, nowMs: number): DuplicateVerdict {
    const { tube } = job;
    const { maxBytes, ttlMs } = tube.resolved.values;
    const growth = put.body.length - job.body.length;
    const bytes = this.#model.queues.jobsOf(tube).reduce((sum, { body }) => sum + body.length, 0);
    if (growth > 0 && bytes + growth > maxBytes) {
      tube.counts.rejected++;
      return "full";
    }
    const { body, pri, delaySeconds, ttrSeconds, delayMs, expiresAtMs } = put;
    Object.assign(job, { body, pri, delaySeconds, ttrSeconds });
    job.policy.expiresAtMs = expiresAtMs === 0 && ttlMs > 0 ? nowMs + ttlMs : expiresAtMs;
    // It goes to the end of its group's jobs, as after a release.
    if (delayMs > 0 || waits(job)) this.#model.queues.becomeDelayed(job, nowMs, delayMs);
    else this.#model.queues.becomeReady(job);
    this.#model.log.keep(job);
    this.#model.timers.runDue(tube.shard, nowMs);
    this.#model.waiting.serve(tube, nowMs);
    return "replaced";
  }
}
