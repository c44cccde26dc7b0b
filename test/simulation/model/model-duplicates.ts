// What a put of the model does to the waiting job that has its key.

import assert from "node:assert/strict";
import type { BatchNames, ModelFlows } from "./flows/model-flows.ts";
import { waits } from "./job-order.ts";
import type { ModelKeys } from "./model-keys.ts";
import type { ModelLog } from "./model-log.ts";
import type { JobPolicy, OnDuplicateWord } from "./model-policies.ts";
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
  readonly flows: ModelFlows;
  readonly uniqueKeys: ModelKeys;
}

/** The put; times in ms, an expiry of 0 for none of its own. */
interface RepeatedPut extends Pick<ModelJob, "pri" | "delaySeconds" | "ttrSeconds" | "body"> {
  readonly delayMs: number;
  readonly expiresAtMs: number;
  readonly policy: JobPolicy;
  readonly names: BatchNames;
}

export type DuplicateVerdict =
  | "duplicate"
  | "kept"
  | "replaced"
  | "escalated"
  | "debounced"
  | "full"
  | "BATCH_ORDER";

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
    const known = this.#model.queues.on(shard, id);
    const job = this.#model.duplicateHasLeft ? undefined : known;
    if (how !== "refuse" && how !== "replace" && job !== undefined)
      if (this.#judge(job, put, false) !== "welcome") return "duplicate";
    if (how === "keep") return "kept";
    const isWaiting = job?.state === "ready" || job?.state === "delayed";
    if (how === "refuse" || job === undefined || !isWaiting) return "duplicate";
    if (how === "replace") return this.#replace(job, put, nowMs);
    if (how === "escalate") {
      if (put.pri >= job.pri) return "kept";
      job.pri = put.pri;
      // An earlier search for the best job has not seen this.
      job.readySince = this.#model.event;
      this.#model.log.keep(job);
      this.#model.waiting.serve(job.tube, nowMs);
      return "escalated";
    }
    if (job.state !== "delayed" || nowMs + put.delayMs <= job.deadlineAtMs) return "kept";
    job.delaySeconds = put.delaySeconds;
    this.#model.queues.becomeDelayed(job, nowMs, put.delayMs);
    this.#model.log.keep(job);
    return "debounced";
  }

  #judge(job: ModelJob, { names }: RepeatedPut, mayJoin: boolean): "welcome" | "duplicate" | "BATCH_ORDER" {
    const flows = this.#model.flows.judge(job.tube.shard, names);
    assert.ok(flows.refusal === undefined, "a put is refused before its key is looked for");
    return this.#model.flows.judgeAgain(job, flows, names, mayJoin);
  }

  #replace(job: ModelJob, put: RepeatedPut, nowMs: number): DuplicateVerdict {
    const { tube } = job;
    const verdict = this.#judge(job, put, true);
    if (verdict !== "welcome") return verdict;
    if (put.policy.group !== "" && put.policy.group !== job.policy.group) return "duplicate";
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
    this.#carry(job, put);
    const { names } = put;
    const flows = this.#model.flows.judge(tube.shard, names);
    assert.ok(flows.refusal === undefined);
    const isLost = flows.lost !== "" && !waits(job);
    if (flows.batch !== 0 && job.policy.batch !== flows.batch) {
      job.policy.batch = flows.batch;
      job.policy.hasEnded = false;
      job.policy.isSpared = false;
    }
    if (names.after !== "") {
      if (job.policy.after === 0) job.policy.after = flows.after;
      job.policy.afterAny = names.any;
    }
    // It goes to the end of its group's jobs, as after a release.
    if (isLost) this.#model.flows.bury(job, flows.lost, nowMs);
    else if (delayMs > 0 || waits(job)) this.#model.queues.becomeDelayed(job, nowMs, delayMs);
    else this.#model.queues.becomeReady(job);
    this.#model.log.keep(job);
    this.#model.timers.runDue(tube.shard, nowMs);
    this.#model.waiting.serve(tube, nowMs);
    return "replaced";
  }

  /** Takes over the options that the put names. */
  #carry(job: ModelJob, { policy: put }: RepeatedPut): void {
    const { policy, tube } = job;
    if (put.untilReserve) policy.untilReserve = true;
    if (put.meta !== "") policy.meta = put.meta;
    if (put.cost !== 1) policy.cost = put.cost;
    if (put.group !== "" || put.weight !== 1) {
      policy.weight = put.weight;
      tube.groups?.weigh(policy.group, put.weight);
    }
    if (put.keyUntilMs === 0) return;
    policy.keyUntilMs = put.keyUntilMs;
    policy.keyUntilLogMs = put.keyUntilMs + this.#model.logOffsetMs;
    this.#model.aheadMs.delete(job.id);
    const key = this.#model.uniqueKeys.keyOf(job);
    assert.ok(key !== undefined, "a job that is replaced has its key");
    key.untilMs = put.keyUntilMs;
    this.#model.uniqueKeys.dropRecord(key);
  }
}
