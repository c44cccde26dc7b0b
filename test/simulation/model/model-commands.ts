// Commands of the model that put, change and delete jobs.

import assert from "node:assert/strict";
import type { FinishedWord } from "../../../src/engine/jobs/ends.ts";
import type { JobChange } from "../../../src/engine/jobs/new-job.ts";
import type { BatchNames, ModelFlows } from "./flows/model-flows.ts";
import { fits, isWhole, type JobChoice } from "./job-choice.ts";
import { AT_HOME, isFree, isLimited, NEVER, NOTHING_SAID, waits } from "./job-order.ts";
import { ModelBucket } from "./model-bucket.ts";
import { LOST, type ModelDeaths } from "./model-deaths.ts";
import { clipFinished, keepFinished } from "./model-finished.ts";
import type { ModelKeys } from "./model-keys.ts";
import type { ModelLog } from "./model-log.ts";
import type { JobPolicy } from "./model-policies.ts";
import type { ModelQueues } from "./model-queues.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelTimers } from "./model-timers.ts";
import type { ByIdResult, Errand, ModelJob, ModelSession, ModelTube, PutVerdict } from "./model-types.ts";
import type { ModelWaits } from "./model-waits.ts";
import type { SessionRegistry } from "./session-registry.ts";
import type { TubeRegistry } from "./tube-registry.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly uniqueKeys: ModelKeys;
  readonly log: ModelLog;
  readonly registry: TubeRegistry;
  readonly connections: SessionRegistry;
  readonly timers: ModelTimers;
  readonly waiting: ModelWaits;
  readonly queues: ModelQueues;
  readonly deaths: ModelDeaths;
  readonly flows: ModelFlows;
}

export class ModelCommands {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  pause(name: string, shard: number, seconds: number, nowMs: number): boolean {
    this.#model.timers.runDue(shard, nowMs);
    const tube = this.#model.tubes.get(name);
    if (tube === undefined) return false;
    tube.pauses++;
    tube.pauseSeconds = seconds;
    tube.pausedUntilMs = seconds > 0 ? nowMs + seconds * 1000 : undefined;
    if (seconds === 0) {
      tube.unpausedSince = this.#model.event;
      this.#model.waiting.serve(tube, nowMs);
    }
    return true;
  }

  /** `isStop`: the server ends it, and its jobs have not failed. */
  close(session: ModelSession, shard: number, isStop: boolean, nowMs: number): void {
    this.#model.timers.runDue(shard, nowMs);
    this.#model.waiting.stopWait(session, shard, nowMs);
    const held = this.#model.connections.held(session, shard).sort((a, b) => a.reservedAt - b.reservedAt);
    for (const job of held) {
      if (!isStop) this.#model.deaths.fail(job, "disconnected", nowMs);
      this.#model.deaths.endReservation(job, 0, { isAttempt: !isStop, isLogged: !isStop }, nowMs);
      this.#model.waiting.serve(job.tube, nowMs);
    }
    this.#model.registry.unuse(session, shard);
    for (const tube of [...this.#model.tubes.values()]) {
      if (tube.shard === shard && tube.watchers.delete(session)) this.#model.registry.dropIfUnused(tube);
    }
    session.halfClosedOn.delete(shard);
    if (session.turns?.endsOn(shard, this.#model.shards) === true) session.turns = undefined;
  }

  halfClose(session: ModelSession, shard: number, nowMs: number): void {
    this.#model.timers.runDue(shard, nowMs);
    session.halfClosedOn.add(shard);
    const wait = this.#model.waiting.waitOf(session, shard);
    if (wait === undefined || wait.number !== undefined) return;
    this.#model.waiting.endWait(session, shard);
    this.#model.effect({ kind: "timedOut", session: session.index });
  }

  put(
    job: Pick<ModelJob, "id" | "pri" | "delaySeconds" | "ttrSeconds" | "body" | "policy">,
    tube: ModelTube,
    nowMs: number,
    delayMillis: number,
    names: BatchNames = { batch: "", after: "", any: false },
  ): PutVerdict {
    this.#model.timers.runDue(tube.shard, nowMs);
    assert.ok(!this.#model.jobs.has(job.id), `job id ${job.id} is given once`);
    const flows = this.#model.flows.judge(tube.shard, names);
    const verdict: PutVerdict =
      flows.refusal === undefined
        ? this.#judge(job.policy, job.body.length, tube)
        : { kind: "refused", reply: flows.refusal };
    if (verdict.kind !== "stored") {
      this.#model.registry.dropIfUnused(tube);
      return verdict;
    }
    assert.ok(flows.refusal === undefined);
    const { policy } = job;
    policy.batch = flows.batch;
    policy.after = flows.after;
    policy.afterAny = flows.after !== 0 && names.any;
    const { ttlMs } = tube.resolved.values;
    if (policy.expiresAtMs === 0 && ttlMs > 0) policy.expiresAtMs = nowMs + ttlMs;
    policy.keyUntilLogMs = policy.keyUntilMs + this.#model.logOffsetMs;
    if (policy.key !== "")
      this.#model.keys.push({
        tube: tube.name,
        key: policy.key,
        id: job.id,
        isHeld: true,
        untilMs: policy.keyUntilMs,
        ...{ hasLeft: false, record: 0 },
      });
    const stored: ModelJob = {
      ...job,
      tube,
      ...AT_HOME,
      state: "ready",
      deadlineAtMs: 0,
      holder: undefined,
      reserves: 0,
      timeouts: 0,
      releases: 0,
      buries: 0,
      kicks: 0,
      buriedAt: 0,
      buriedSince: 0,
      reservedAt: 0,
      readySince: this.#model.event,
      touchedAt: 0,
      ...NOTHING_SAID,
    };
    this.#model.jobs.set(job.id, stored);
    tube.totalJobs++;
    this.#model.totalJobs++;
    this.#model.queues.joinGroup(stored);
    const delayMs = job.delaySeconds * 1000 + delayMillis;
    if (flows.lost !== "") this.#model.flows.bury(stored, flows.lost, nowMs);
    else if (delayMs > 0 || waits(stored)) this.#model.queues.becomeDelayed(stored, nowMs, delayMs);
    else tube.groups?.becameReady(stored);
    this.#model.log.keep(stored);
    if (delayMs === 0) this.#model.waiting.serve(tube, nowMs);
    return verdict;
  }

  #judge({ key }: JobPolicy, bodyBytes: number, tube: ModelTube): PutVerdict {
    const known =
      key === "" ? undefined : this.#model.keys.find((each) => each.tube === tube.name && each.key === key);
    if (known !== undefined) {
      tube.counts.duplicates++;
      this.#model.duplicateHasLeft = known.hasLeft;
      return { kind: "duplicate", of: known.id };
    }
    if (!this.#model.queues.isFull(tube, bodyBytes)) return { kind: "stored" };
    tube.counts.rejected++;
    return { kind: "full" };
  }

  /** Tells a tube its settings. */
  applySettings(name: string, nowMs: number): void {
    const tube = this.#model.tubes.get(name);
    assert.ok(tube !== undefined, `tube ${name} exists`);
    tube.resolved = this.#model.settings[tube.shard]!.resolve(name);
    const { values } = tube.resolved;
    if (values.rate === "") tube.bucket = undefined;
    else if (tube.bucket === undefined) tube.bucket = new ModelBucket(values);
    else tube.bucket.set(values, nowMs);
    tube.groups?.set(nowMs);
    clipFinished(this.#model, name, values.keepFinished);
    tube.wasLimited ||= isLimited(tube.resolved);
    this.#model.waiting.serve(tube, nowMs);
  }

  delete(session: ModelSession, shard: number, id: number, nowMs: number): ByIdResult {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#model.queues.on(shard, id);
    if (job === undefined || !isFree(job, session)) return "not found";
    this.#model.uniqueKeys.endKey(job, nowMs);
    this.#deleteOne(job, job.state === "reserved", "deleted", nowMs);
    return "done";
  }

  /** `done`: by its holder. */
  #deleteOne(job: ModelJob, done: boolean, state: FinishedWord, nowMs: number): void {
    keepFinished(this.#model, job, { state, holder: job.holder }, nowMs);
    this.#model.log.keepEnd(job, this.#model.flows.ended(job, done));
    this.#model.jobs.delete(job.id);
    job.tube.deletes++;
    job.tube.groups?.left();
    this.#model.waiting.serve(job.tube, nowMs);
    this.#model.registry.dropIfUnused(job.tube);
  }

  release(
    session: ModelSession,
    shard: number,
    id: number,
    { pri, delaySeconds, reason }: { pri: number; delaySeconds: number; reason: string },
    nowMs: number,
  ): ByIdResult {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#model.queues.heldBy(session, shard, id);
    if (job === undefined) return "not found";
    if (reason !== "") this.#model.deaths.fail(job, "released", nowMs, reason);
    job.pri = pri;
    job.delaySeconds = delaySeconds;
    job.releases++;
    job.tube.releases++;
    this.#model.deaths.endReservation(job, delaySeconds * 1000, LOST, nowMs);
    this.#model.waiting.serve(job.tube, nowMs);
    return "done";
  }

  bury(
    session: ModelSession,
    shard: number,
    id: number,
    pri: number,
    nowMs: number,
    reason: string,
  ): ByIdResult {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#model.queues.heldBy(session, shard, id);
    if (job === undefined) return "not found";
    this.#model.deaths.fail(job, "buried", nowMs, reason);
    job.pri = pri;
    job.buries++;
    job.tube.buries++;
    if (job.policy.cancelled !== undefined) {
      const { tube } = job;
      this.#model.deaths.endCancelled(job, nowMs, job.holder);
      this.#model.waiting.serve(tube, nowMs);
      return "done";
    }
    job.state = "buried";
    job.holder = undefined;
    this.#model.queues.buryLast(job);
    this.#model.log.keep(job);
    this.#model.waiting.serve(job.tube, nowMs);
    return "done";
  }

  touch(session: ModelSession, shard: number, id: number, nowMs: number): ByIdResult {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#model.queues.heldBy(session, shard, id);
    if (job === undefined) return "not found";
    job.deadlineAtMs = nowMs + job.ttrSeconds * 1000;
    job.touchedAt = this.#model.event;
    return "done";
  }

  /** Removes a job that waits, and marks one that is held. */
  cancel(shard: number, id: number, reason: string, nowMs: number): ByIdResult | "marked" {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#model.queues.on(shard, id);
    if (job === undefined || job.state === "moving") return "not found";
    const { policy, tube } = job;
    if (job.state !== "reserved") {
      this.#model.deaths.endCancelled(job, nowMs, undefined, reason);
      this.#model.waiting.serve(tube, nowMs);
      return "done";
    }
    if (policy.cancelled !== undefined) return "marked";
    policy.cancelled = reason;
    policy.expiresAtMs = Number.MIN_VALUE;
    this.#model.log.keep(job);
    return "marked";
  }

  /**
   * "full": its tube is, and nothing has changed; an errand: it has to go to a tube of another
   * shard for that.
   */
  update(
    session: ModelSession,
    shard: number,
    id: number,
    change: JobChange,
    nowMs: number,
  ): ByIdResult | "full" | Errand {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#model.queues.on(shard, id);
    if (job === undefined || !isFree(job, session)) return "not found";
    const { tube: target = job.tube.name } = change;
    const moves = target !== job.tube.name;
    if (moves && this.#model.registry.tubeShard(target) !== shard) return this.#errandOf(job, change, nowMs);
    if (moves && this.refuses(this.#model.registry.tube(target), job)) return "full";
    const before = job.tube;
    const wasHeld = job.state === "reserved";
    this.#setFacts(job, change, nowMs);
    if (moves) this.#changeTube(job, target, nowMs);
    const { delayMs = change.tube !== undefined && wasHeld ? 0 : undefined } = change;
    if (moves && !wasHeld) this.#model.log.keep(job);
    else if (delayMs === undefined) this.#updateInPlace(job, change, nowMs);
    if (delayMs !== undefined) {
      this.updateDelay(job, delayMs, nowMs, before);
      this.#model.log.keep(job);
    }
    this.#model.timers.runDue(shard, nowMs);
    this.#model.waiting.serve(job.tube, nowMs);
    if (moves) this.#model.waiting.serve(before, nowMs);
    this.#model.registry.dropIfUnused(before);
    return "done";
  }

  #setFacts(job: ModelJob, { pri = job.pri, ttrSeconds, ttlMs }: JobChange, nowMs: number): void {
    if (ttlMs !== undefined && job.policy.cancelled === undefined)
      job.policy.expiresAtMs = ttlMs === 0 ? 0 : nowMs + ttlMs;
    // An earlier search for the best job has not seen this.
    if (pri !== job.pri) job.readySince = this.#model.event;
    job.pri = pri;
    job.ttrSeconds = ttrSeconds ?? job.ttrSeconds;
  }

  /** Keeps the job in its state and tube; buries a buried one anew. */
  #updateInPlace(job: ModelJob, { ttrSeconds }: JobChange, nowMs: number): void {
    if (job.state === "reserved" && ttrSeconds !== undefined) job.deadlineAtMs = nowMs + ttrSeconds * 1000;
    if (job.state === "buried") this.#model.queues.buryLast(job);
    this.#model.log.keep(job);
  }

  /** Returns whether a tube has no room for a job that is to come. */
  refuses(tube: ModelTube, { body }: ModelJob): boolean {
    const isFull = this.#model.queues.isFull(tube, body.length);
    if (isFull) this.#model.registry.dropIfUnused(tube);
    return isFull;
  }

  /**
   * Moves the job unchanged to another tube of this shard, where an unreserved dead one lives
   * again.
   */
  #changeTube(job: ModelJob, target: string, nowMs: number): void {
    const { tube } = job;
    this.#model.uniqueKeys.leaveKey(job, nowMs);
    tube.movedOut++;
    this.#model.queues.enter(
      job,
      this.#model.registry.tube(target),
      job.state,
      job.state === "reserved",
      () => tube.groups?.left(),
    );
  }

  #errandOf(job: ModelJob, { pri, ttrSeconds, delayMs, ttlMs }: JobChange, nowMs: number): Errand {
    const { policy } = job;
    const isHeld = job.state === "reserved";
    const livesMs = ttlMs === 0 ? 0 : nowMs + (ttlMs ?? 0);
    return {
      travel: isHeld ? "handed" : "update",
      asReady: false,
      delayMs: delayMs ?? (isHeld ? 0 : undefined),
      facts: {
        pri: pri ?? job.pri,
        ttrSeconds: ttrSeconds ?? job.ttrSeconds,
        releases: job.releases + Number(isHeld),
      },
      expiresAtMs: ttlMs === undefined || policy.cancelled !== undefined ? policy.expiresAtMs : livesMs,
      attemptsBase: policy.attemptsBase + Number(isHeld),
    };
  }

  /** `heldIn` is the tube in which it was held, if it was. */
  updateDelay(job: ModelJob, delayMs: number, nowMs: number, heldIn = job.tube): void {
    job.delaySeconds = Math.floor(delayMs / 1000);
    if (waits(job)) return;
    if (job.state === "reserved") {
      job.releases++;
      heldIn.releases++;
      // That was no attempt, whatever is set now.
      job.policy.attemptsBase++;
    } else if (job.state === "buried") this.#model.deaths.rescue(job, job.tube);
    if (delayMs > 0) this.#model.queues.becomeDelayed(job, nowMs, delayMs);
    else if (job.state !== "ready") this.#model.queues.becomeReady(job);
  }

  kick(tube: ModelTube, bound: number, nowMs: number): number {
    this.#model.timers.runDue(tube.shard, nowMs);
    const buried = this.#model.queues.firstBuried(tube) !== undefined;
    let kicked = 0;
    while (kicked < bound) {
      const job = buried ? this.#model.queues.firstBuried(tube) : this.#model.queues.firstDelayed(tube);
      if (job === undefined || waits(job)) break;
      this.kickOne(job, nowMs);
      kicked++;
    }
    return kicked;
  }

  kickJob(shard: number, id: number, nowMs: number): ByIdResult {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#model.queues.on(shard, id);
    if (job === undefined || waits(job)) return "not found";
    if (job.state !== "buried" && job.state !== "delayed") return "not found";
    this.kickOne(job, nowMs);
    return "done";
  }

  kickOne(job: ModelJob, nowMs: number): void {
    job.kicks++;
    job.tube.kicks++;
    this.#model.deaths.rescue(job, job.tube);
    this.#model.queues.becomeReady(job);
    this.#model.log.keep(job);
    this.#model.timers.runDue(job.tube.shard, nowMs);
    this.#model.waiting.serve(job.tube, nowMs);
  }

  /**
   * Deletes chosen jobs by id, reserved or not, of those that the step has taken; returns how many.
   * Each may free a limit for another one.
   */
  clear(choice: JobChoice, nowMs: number, isTaken: (id: number) => boolean): number {
    const jobs = [...this.#model.jobs.values()].filter(({ id }) => isTaken(id)).sort((a, b) => a.id - b.id);
    // Whole queues go first.
    const queued = isWhole(choice) ? jobs.filter((job) => job.state !== "reserved") : [];
    let cleared = 0;
    for (const job of [...queued, ...jobs]) {
      if (!this.#model.jobs.has(job.id) || !fits(job, choice) || cleared === (choice.limit ?? NEVER))
        continue;
      this.discard(job, nowMs);
      cleared++;
    }
    return cleared;
  }

  /** Deletes a job as a part of something larger, whoever holds it. */
  discard(job: ModelJob, nowMs: number, state: FinishedWord = "deleted"): void {
    // A reserve under way may have been told of its margin before.
    if (job.holder !== undefined) job.holder.expiredAt = this.#model.event;
    this.#model.uniqueKeys.endKey(job, nowMs);
    this.#deleteOne(job, false, state, nowMs);
  }
}
