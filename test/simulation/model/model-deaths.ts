// Ends of reservations and jobs in the model: retries, backoff, expiry and dead letters.

import { backoffMs } from "../../../src/engine/policies/failures.ts";
import { FAILURES_MAX } from "../../../src/protocol/job-failure.ts";
import type { ModelFlows } from "./flows/model-flows.ts";
import { keepFinished } from "./model-finished.ts";
import type { ModelKeys } from "./model-keys.ts";
import type { ModelLog } from "./model-log.ts";
import type { JobPolicy } from "./model-policies.ts";
import type { ModelQueues } from "./model-queues.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelJob, ModelSession, ModelTube } from "./model-types.ts";
import type { ModelWaits } from "./model-waits.ts";
import type { TubeRegistry } from "./tube-registry.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly uniqueKeys: ModelKeys;
  readonly log: ModelLog;
  readonly registry: TubeRegistry;
  readonly waiting: ModelWaits;
  readonly queues: ModelQueues;
  readonly flows: ModelFlows;
}

/** How a reservation ends; `isLogged`: even if the job has no policy. */
interface ReservationEnd {
  readonly isAttempt: boolean;
  readonly isLogged: boolean;
}

/** Its holder has lost it. */
export const LOST: ReservationEnd = { isAttempt: true, isLogged: true };

export class ModelDeaths {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  /** `holder` held it until now. */
  expire(job: ModelJob, nowMs: number, holder?: ModelSession): void {
    const { tube } = job;
    if (job.policy.cancelled !== undefined) {
      this.endCancelled(job, nowMs, holder);
      return;
    }
    keepFinished(this.#model, job, { state: "expired", holder }, nowMs);
    tube.counts.expired++;
    if (tube.resolved.values.expire === "bury") {
      this.fail(job, "expired", nowMs);
      this.#markDead(job, "expired", nowMs);
      this.#buryDead(job);
      this.#model.log.keep(job);
    } else {
      this.#model.uniqueKeys.endKey(job, nowMs);
      this.#model.log.keepEnd(job, this.#model.flows.ended(job, false));
      this.#forget(job);
    }
  }

  endCancelled(
    job: ModelJob,
    nowMs: number,
    holder?: ModelSession,
    reason = job.policy.cancelled ?? "",
  ): void {
    keepFinished(this.#model, job, { state: "cancelled", holder, reason }, nowMs);
    job.tube.counts.cancelled++;
    this.#model.uniqueKeys.endKey(job, nowMs);
    this.#model.log.keepEnd(job, this.#model.flows.ended(job, false));
    this.#forget(job);
  }

  /** Notes that an attempt failed in the hands of its holder; if the job expired, in nobody's. */
  fail({ policy, holder, reserves, tube }: ModelJob, cause: string, nowMs: number, reason = ""): void {
    const isExpired = cause === "expired";
    const attempt = isExpired ? 0 : reserves - policy.attemptsBase;
    const worker = isExpired ? "" : this.#model.workerName(holder!.index);
    const failure = { atMs: nowMs, attempt, cause, worker, reason };
    policy.failures = [failure, ...policy.failures].slice(0, FAILURES_MAX);
    if (cause !== "disconnected") return;
    policy.disconnects++;
    tube.disconnects++;
  }

  /**
   * Kills a job without attempts left: it goes to the dead-letter tube, unless it has died before.
   */
  #die(job: ModelJob, holder: ModelSession | undefined, nowMs: number): void {
    const { tube, policy } = job;
    const [last] = policy.failures;
    const reason = last?.attempt === job.reserves - policy.attemptsBase ? last.reason : "";
    keepFinished(this.#model, job, { state: "dead", holder, reason }, nowMs);
    const target = policy.origin === "" ? tube.resolved.values.deadLetter : "";
    this.#markDead(job, "attempts", nowMs);
    if (target !== "" && this.#model.registry.tubeShard(target) === tube.shard) {
      this.enterDeadLetter(job, target, nowMs);
      this.#model.waiting.serve(job.tube, nowMs);
      this.#model.waiting.serve(tube, nowMs);
      this.#model.registry.dropIfUnused(tube);
      return;
    }
    policy.leaves = target !== "";
    this.#buryDead(job);
    this.#model.log.keep(job);
  }

  /** Takes a dead job's hold on its key and its time to live, and notes where it died. */
  #markDead(job: ModelJob, reason: JobPolicy["reason"], nowMs: number): void {
    const { tube, policy } = job;
    this.#model.uniqueKeys.endKey(job, nowMs);
    this.#model.flows.died(job);
    policy.expiresAtMs = 0;
    policy.reason = reason;
    if (policy.origin === "") policy.origin = tube.name;
    tube.counts.dead++;
  }

  #buryDead(job: ModelJob): void {
    job.state = "buried";
    job.holder = undefined;
    this.#model.queues.buryLast(job);
  }

  /** Moves a dead job to a dead-letter tube of the same shard, where it is ready. */
  enterDeadLetter(job: ModelJob, target: string, nowMs: number): void {
    const before = job.tube;
    if (before.name !== target) this.#model.uniqueKeys.leaveKey(job, nowMs);
    before.movedOut++;
    this.#model.queues.enter(job, this.#model.registry.tube(target), "ready", true, () =>
      before.groups?.left(),
    );
    this.#model.log.keep(job);
  }

  #forget(job: ModelJob): void {
    this.#model.jobs.delete(job.id);
    job.tube.groups?.left();
    this.#model.registry.dropIfUnused(job.tube);
  }

  /** Ends a reservation by release, timeout, disconnect or a stop. */
  endReservation(
    job: ModelJob,
    delayMs: number,
    { isAttempt, isLogged }: ReservationEnd,
    nowMs: number,
  ): void {
    const { tube, policy, holder } = job;
    const keeps = isLogged || this.#model.log.hasPolicy(job);
    if (!isAttempt) policy.attemptsBase++;
    const { values } = tube.resolved;
    job.holder = undefined;
    const attempts = job.reserves - policy.attemptsBase;
    if (policy.expiresAtMs > 0 && policy.expiresAtMs <= nowMs) {
      this.expire(job, nowMs, holder);
      return;
    }
    if (isAttempt && values.maxAttempts > 0 && attempts >= values.maxAttempts) {
      this.#die(job, holder, nowMs);
      return;
    }
    let waitMs = delayMs;
    if (isAttempt && waitMs === 0 && values.backoffMs > 0) {
      waitMs = backoffMs({ ...values, sources: new Map() }, job.id, attempts);
      job.delaySeconds = Math.floor(waitMs / 1000);
    }
    if (waitMs > 0) this.#model.queues.becomeDelayed(job, nowMs, waitMs);
    else this.#model.queues.becomeReady(job);
    if (keeps) this.#model.log.keep(job);
  }

  /** Restores a kicked job's attempts, and its life if it died here. */
  rescue(job: ModelJob, tube: ModelTube): void {
    const { policy, reserves } = job;
    const { maxAttempts, backoffMs: waitMs } = tube.resolved.values;
    if ((maxAttempts > 0 || waitMs > 0) && reserves > 0) policy.attemptsBase = reserves;
    if (policy.reason === "none" || policy.origin !== tube.name) return;
    policy.reason = "none";
    policy.origin = "";
    policy.leaves = false;
    this.#model.uniqueKeys.takeKey(job);
  }
}
