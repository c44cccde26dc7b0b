// Batches in the model: what each shard knows of them, and their members that have gone. The model
// learns from the engines what was decided, and says whether it may be.

import assert from "node:assert/strict";
import { FAILURES_MAX } from "../../../../src/protocol/job-failure.ts";
import { BatchOutcome, BatchState } from "../../../../src/schema/batch.ts";
import type { ModelLog } from "../model-log.ts";
import type { ModelQueues } from "../model-queues.ts";
import type { ModelState } from "../model-state.ts";
import type { KnownBatch, ModelJob } from "../model-types.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly queues: ModelQueues;
  readonly log: ModelLog;
}

/** The batches that a put names. */
export interface BatchNames {
  readonly batch: string;
  readonly after: string;
  readonly any: boolean;
}

/** What becomes of a put that names batches. */
type BatchVerdict =
  | { readonly refusal: "BATCH_NOT_FOUND" | "BATCH_COMMITTED" | "BATCH_ORDER" }
  | { readonly refusal: undefined; readonly batch: number; readonly after: number; readonly lost: string };

export class ModelFlows {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  of(shard: number, number: number): KnownBatch | undefined {
    return this.#model.knownBatches[shard]!.get(number);
  }

  #named(shard: number, name: string): KnownBatch | undefined {
    return [...this.#model.knownBatches[shard]!.values()].find(
      (each) => each.name === name && each.state !== BatchState.Opening,
    );
  }

  /** Judges a put on this shard by the batches that it names. */
  judge(shard: number, { batch: name, after: afterName, any }: BatchNames): BatchVerdict {
    let [after, lost] = [0, ""];
    if (afterName !== "") {
      const awaited = this.#named(shard, afterName);
      if (awaited === undefined) return { refusal: "BATCH_NOT_FOUND" };
      if (awaited.state !== BatchState.Complete) after = awaited.number;
      else if (isLost(awaited, any)) lost = reasonOf(awaited);
    }
    if (name === "") return { refusal: undefined, batch: 0, after, lost };
    const batch = this.#named(shard, name);
    if (batch === undefined) return { refusal: "BATCH_NOT_FOUND" };
    if (batch.state !== BatchState.Open) return { refusal: "BATCH_COMMITTED" };
    if (after >= batch.number) return { refusal: "BATCH_ORDER" };
    return { refusal: undefined, batch: batch.number, after, lost };
  }

  // --- what shards are told ------------------------------------------------------------------------

  /** A shard is told what became of a batch. */
  assume(shard: number, told: Readonly<KnownBatch>): void {
    const { number, name, state, outcome, allDone, allFailed } = told;
    const known = this.of(shard, number);
    assert.ok(
      known === undefined || mayFollow(known.state, state),
      `${name} goes from ${known?.state} to ${state}`,
    );
    assert.equal(known?.name ?? name, name, "a batch keeps its name");
    const isNews = this.#model.knownBatches.every((each) => each.get(number)?.state !== state);
    if (state === BatchState.Open && isNews)
      for (const [other, batches] of this.#model.knownBatches.entries())
        assert.ok(batches.has(number), `shard ${other} knows ${name} when it may have members`);
    if (state === BatchState.Complete && isNews) this.#checkComplete(told);
    if (state === BatchState.Forgotten) {
      assert.deepEqual(this.#waitingFor(number), [], `no job waits for ${name} when it is forgotten`);
      this.#model.knownBatches[shard]!.delete(number);
    } else this.#model.knownBatches[shard]!.set(number, { number, name, state, outcome, allDone, allFailed });
    if (!this.#model.batches.has(number)) this.#model.batches.set(number, { done: 0, failed: 0 });
    if (state === BatchState.Cancelled) this.#spareHeld(shard, number);
  }

  /** What workers hold when a shard learns that its batch is cancelled outlives it. */
  #spareHeld(shard: number, number: number): void {
    for (const job of this.#model.jobs.values()) {
      if (job.tube.shard !== shard || job.policy.batch !== number || job.state !== "reserved") continue;
      if (this.spare(job)) this.#model.log.keep(job);
    }
  }

  #waitingFor(number: number): number[] {
    return [...this.#model.jobs.values()].filter(({ policy }) => policy.after === number).map(({ id }) => id);
  }

  /** Nothing is open any more, wherever it is, and all that have ended are counted. */
  #checkComplete({ number, name, outcome, allDone, allFailed }: Readonly<KnownBatch>): void {
    const members = [...this.#model.jobs.values()].filter(({ policy }) => policy.batch === number);
    const open = members.filter(({ policy }) => !policy.hasEnded).map(({ id }) => id);
    assert.deepEqual(open, [], `${name} is complete: its open members`);
    const { done, failed } = this.#model.batches.get(number)!;
    const counted = { done: allDone, failed: allFailed };
    assert.deepEqual(counted, { done, failed: failed + members.length }, `${name} is complete: its members`);
    const ended = allFailed > 0 ? BatchOutcome.Failure : BatchOutcome.Success;
    assert.ok(outcome === ended || outcome === BatchOutcome.Cancelled, `outcome of ${name}`);
  }

  /** At rest, what is to happen has happened. */
  checkRest(): void {
    const [first] = this.#model.knownBatches;
    for (const [shard, known] of this.#model.knownBatches.entries())
      assert.deepEqual(sorted(known), sorted(first!), `the batches that shard ${shard} knows`);
    for (const { number, name, state } of first!.values()) {
      const members = [...this.#model.jobs.values()].filter(({ policy }) => policy.batch === number);
      const isOver = members.every(({ policy }) => policy.hasEnded);
      if (state === BatchState.Committed || state === BatchState.Cancelled)
        assert.ok(!isOver, `${name} has no open member and is not complete`);
      assert.notEqual(state, BatchState.Opening, `${name} is open`);
      if (state === BatchState.Complete)
        assert.deepEqual(this.#waitingFor(number), [], `${name} is complete, and jobs wait for it`);
    }
  }

  // --- jobs ----------------------------------------------------------------------------------------

  /** A job is new on a shard, from another one or from the log, which may not have its batch. */
  entered({ policy }: Pick<ModelJob, "policy">, shard: number): void {
    if (this.of(shard, policy.batch) !== undefined) return;
    policy.batch = 0;
    policy.hasEnded = false;
    policy.isSpared = false;
  }

  /** A member may outlive its cancelled batch; returns whether that is new. */
  spare({ policy, tube }: ModelJob, shard = tube.shard): boolean {
    if (policy.hasEnded || policy.isSpared) return false;
    if (this.of(shard, policy.batch)?.state !== BatchState.Cancelled) return false;
    policy.isSpared = true;
    return true;
  }

  /** Returns whether the job that has the key of a put may take its batches, or has them. */
  judgeAgain(
    { policy, tube }: ModelJob,
    put: { readonly batch: number; readonly after: number; readonly lost: string },
    { after: name, any }: BatchNames,
    mayJoin: boolean,
  ): "welcome" | "duplicate" | "BATCH_ORDER" {
    const batch = this.of(tube.shard, policy.batch);
    const awaited = this.of(tube.shard, policy.after);
    const isMember = batch?.number === put.batch && !policy.hasEnded;
    if (put.batch !== 0 && !isMember && (batch !== undefined || !mayJoin)) return "duplicate";
    if (name !== "" && awaited !== undefined) {
      if (awaited.name !== name || (!mayJoin && any !== policy.afterAny)) return "duplicate";
    } else if (!mayJoin && (put.after !== 0 || put.lost !== "")) return "duplicate";
    const [member, waitsFor] = [batch?.number ?? put.batch, awaited?.number ?? put.after];
    return member !== 0 && waitsFor >= member && waitsFor !== 0 ? "BATCH_ORDER" : "welcome";
  }

  died({ policy, tube }: ModelJob): void {
    policy.after = 0;
    if (this.of(tube.shard, policy.batch) !== undefined) policy.hasEnded = true;
  }

  /** A job is about to be removed; returns whether its batch counts it. */
  ended({ policy, tube }: ModelJob, done: boolean): boolean {
    const known = this.of(tube.shard, policy.batch);
    if (known === undefined || known.state === BatchState.Complete) return false;
    const counts = this.#model.batches.get(known.number)!;
    if (done && !policy.hasEnded) counts.done++;
    else counts.failed++;
    return true;
  }

  /** Buries a job that must not run, since its batch has failed. */
  bury(job: ModelJob, reason: string, nowMs: number): void {
    job.buries++;
    job.tube.buries++;
    const failure = { atMs: nowMs, attempt: 0, cause: "buried", worker: "", reason };
    job.policy.failures = [failure, ...job.policy.failures].slice(0, FAILURES_MAX);
    job.state = "buried";
    job.holder = undefined;
    this.#model.queues.buryLast(job);
  }

  /** What a client is shown of a job's batches. */
  rowsOf({ policy, tube }: ModelJob): Record<string, string> {
    const batch = this.of(tube.shard, policy.batch);
    const awaited = this.of(tube.shard, policy.after);
    return {
      ...(batch === undefined ? {} : { batch: `"${batch.name}"` }),
      ...(awaited === undefined
        ? {}
        : { "waits-for": `"${awaited.name}"`, "waits-for-any": policy.afterAny ? "yes" : "no" }),
    };
  }
}

export const isLost = ({ outcome }: KnownBatch, any: boolean): boolean =>
  !any && outcome !== BatchOutcome.Success;

export function reasonOf({ name, outcome, allDone, allFailed }: KnownBatch): string {
  if (outcome === BatchOutcome.Cancelled) return `batch ${name}: cancelled`;
  return `batch ${name}: ${allFailed} of ${allDone + allFailed} members failed`;
}

/** What a shard knows may lag behind, but goes in this order. */
const AFTER: Readonly<Record<number, readonly number[]>> = {
  [BatchState.Opening]: [BatchState.Opening, BatchState.Open, BatchState.Committed, BatchState.Cancelled],
  [BatchState.Open]: [BatchState.Open, BatchState.Committed, BatchState.Cancelled, BatchState.Complete],
  [BatchState.Committed]: [BatchState.Committed, BatchState.Cancelled, BatchState.Complete],
  [BatchState.Cancelled]: [BatchState.Cancelled, BatchState.Complete],
  [BatchState.Complete]: [BatchState.Complete, BatchState.Forgotten],
};

const mayFollow = (before: number, after: number): boolean => AFTER[before]!.includes(after);

const sorted = (known: ReadonlyMap<number, KnownBatch>): KnownBatch[] =>
  [...known.values()].sort((a, b) => a.number - b.number);
