// Moves of jobs to other tubes and shards in the model.

import assert from "node:assert/strict";
import type { ModelFlows } from "./flows/model-flows.ts";
import { keptState, waits } from "./job-order.ts";
import type { ModelCommands } from "./model-commands.ts";
import type { ModelDeaths } from "./model-deaths.ts";
import type { ModelKeys } from "./model-keys.ts";
import type { ModelLog } from "./model-log.ts";
import type { ModelQueues } from "./model-queues.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelTimers } from "./model-timers.ts";
import type { Errand, ModelJob, ModelTube } from "./model-types.ts";
import type { ModelWaits } from "./model-waits.ts";
import type { TubeRegistry } from "./tube-registry.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly uniqueKeys: ModelKeys;
  readonly log: ModelLog;
  readonly registry: TubeRegistry;
  readonly timers: ModelTimers;
  readonly waiting: ModelWaits;
  readonly queues: ModelQueues;
  readonly deaths: ModelDeaths;
  readonly commands: ModelCommands;
  readonly flows: ModelFlows;
}

export class ModelMoves {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  /** Returns the tube of another shard that a dead job must go to, or "". */
  leavesFor(shard: number, id: number, nowMs: number): string {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#model.queues.on(shard, id);
    // A job that was sent elsewhere and refused leaves then.
    if (job === undefined || !job.policy.leaves) return "";
    if (job.state === "moving" && job.stateBefore === "buried") return "";
    job.policy.leaves = false;
    const { tube } = job;
    if (job.state !== "buried") return "";
    const target = tube.resolved.values.deadLetter;
    if (target === "" || target === tube.name) {
      this.#model.queues.buryLast(job);
      this.#model.log.keep(job);
      return "";
    }
    if (this.#model.registry.tubeShard(target) !== shard) return target;
    this.#model.deaths.enterDeadLetter(job, target, nowMs);
    this.#offer(job.tube, nowMs);
    this.#model.registry.dropIfUnused(tube);
    return "";
  }

  /** Moves a job of this shard to a tube of this shard. */
  move(job: ModelJob, target: string, asReady: boolean, nowMs: number): "moved" | "stays" | "full" {
    if (job.tube.name === target) {
      if (!asReady || job.state === "ready" || waits(job)) return "stays";
      this.#model.commands.kickOne(job, nowMs);
      return "moved";
    }
    const before = job.tube;
    const there = this.#model.registry.tube(target);
    if (this.#model.commands.refuses(there, job)) return "full";
    this.#model.uniqueKeys.leaveKey(job, nowMs);
    before.movedOut++;
    this.#model.queues.enter(job, there, job.state, false, () => before.groups?.left(), asReady);
    this.#model.log.keep(job);
    this.#offer(there, nowMs);
    this.#model.waiting.serve(before, nowMs);
    this.#model.registry.dropIfUnused(before);
    return "moved";
  }

  depart(job: ModelJob, transfer: number, errand: Errand, nowMs: number): void {
    const { state } = job;
    this.#model.uniqueKeys.departKey(job, nowMs);
    assert.ok(state !== "moving", `job ${job.id} leaves once`);
    assert.equal(state === "reserved", errand.travel === "handed", `only its holder hands job ${job.id} on`);
    job.stateBefore = state;
    job.holderBefore = job.holder;
    job.holder = undefined;
    job.transfer = transfer;
    job.errand = errand;
    job.state = "moving";
    this.#model.waiting.serve(job.tube, nowMs);
  }

  /** Tells the tube's shard of a job; returns false if the tube has no room for it. */
  arrive(job: ModelJob, target: string, nowMs: number): boolean {
    this.#model.timers.runDue(this.#model.registry.tubeShard(target), nowMs);
    assert.equal(job.state, "moving", `job ${job.id} arrives once, and has left before`);
    const stale = this.#model.copies.find(
      ({ id, tube }) => id === job.id && tube.shard === this.#model.registry.tubeShard(target),
    );
    if (stale !== undefined) this.#forgetCopy(stale, nowMs);
    const there = this.#model.registry.tube(target);
    const { travel, asReady, delayMs, facts, expiresAtMs, attemptsBase } = job.errand!;
    if (travel !== "death" && this.#model.commands.refuses(there, job)) return false;
    this.#model.copies.push({ ...job });
    Object.assign(job, facts, { startedAtMs: -1 });
    // That it was cancelled goes with it, but not why.
    if (job.policy.cancelled !== undefined) job.policy.cancelled = "";
    job.policy.leaves = false;
    job.policy.expiresAtMs = expiresAtMs ?? job.policy.expiresAtMs;
    job.policy.attemptsBase = attemptsBase ?? job.policy.attemptsBase;
    this.#model.flows.entered(job, there.shard);
    this.#model.flows.spare(job, there.shard);
    const staysDead = travel === "death" || travel === "handed";
    this.#model.queues.enter(
      job,
      there,
      keptState(job.stateBefore),
      staysDead,
      () => {},
      asReady || travel === "death",
    );
    this.#model.log.keep(job);
    if (delayMs !== undefined) {
      this.#model.commands.updateDelay(job, delayMs, nowMs);
      this.#model.log.keep(job);
    }
    this.#offer(there, nowMs);
    return true;
  }

  /** Tells the shard that the job has left. */
  departed(id: number, shard: number, transfer: number, nowMs: number): void {
    this.#model.timers.runDue(shard, nowMs);
    const copy = this.#model.copies.find(
      (each) => each.id === id && each.tube.shard === shard && each.transfer === transfer,
    );
    if (copy !== undefined) this.#forgetCopy(copy, nowMs);
  }

  /** Tells the shard that the job stays: the other one refused it. */
  stay(job: ModelJob, transfer: number, nowMs: number): void {
    const { tube } = job;
    this.#model.timers.runDue(tube.shard, nowMs);
    assert.deepEqual([job.state, job.transfer], ["moving", transfer], `job ${job.id} stays where it is`);
    if (job.stateBefore === "ready") this.#model.queues.becomeReady(job);
    else job.state = job.stateBefore;
    if (job.state === "reserved") {
      job.holder = job.holderBefore;
      job.reservedAt = ++this.#model.reservations;
    }
    if (job.state === "buried") {
      this.#model.queues.buryLast(job);
      this.#model.log.keep(job);
    }
    if (this.#model.flows.spare(job)) this.#model.log.keep(job);
    this.#offer(tube, nowMs);
  }

  #forgetCopy(copy: ModelJob, nowMs: number): void {
    const { tube } = copy;
    this.#model.copies = this.#model.copies.filter((each) => each !== copy);
    this.#model.uniqueKeys.departedKey(copy, nowMs);
    tube.movedOut++;
    // Its holder has handed it on, which counts as a release.
    if (copy.stateBefore === "reserved") tube.releases++;
    tube.groups?.left();
    this.#model.waiting.serve(tube, nowMs);
    this.#model.registry.dropIfUnused(tube);
  }

  /** Offers a job that became ready, unless it has expired. */
  #offer(tube: ModelTube, nowMs: number): void {
    this.#model.timers.runDue(tube.shard, nowMs);
    this.#model.waiting.serve(tube, nowMs);
    this.#model.registry.dropIfUnused(tube);
  }
}
