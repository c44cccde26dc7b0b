// Reserves of the model: single, in batches, by id and over several shards.

import assert from "node:assert/strict";
import { isBetter, waits, wasLost } from "./job-order.ts";
import type { ModelLog } from "./model-log.ts";
import type { ModelQueues } from "./model-queues.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelTimers } from "./model-timers.ts";
import type { BatchLimits, ByIdResult, ModelJob, ModelSession } from "./model-types.ts";
import type { ModelWaits } from "./model-waits.ts";
import type { SessionRegistry } from "./session-registry.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly log: ModelLog;
  readonly connections: SessionRegistry;
  readonly timers: ModelTimers;
  readonly waiting: ModelWaits;
  readonly queues: ModelQueues;
}

export class ModelReserves {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  /**
   * The next job for the session among the tubes of a shard. `given` is the one that the engine
   * gives: by time, it says which tube's turn it is. If it gives none, that is a job that `ends`
   * the batch, if there is one.
   */
  #next(
    session: ModelSession,
    shard: number,
    nowMs: number,
    given: number | undefined,
    ends: (job: ModelJob) => boolean = () => false,
  ): ModelJob | undefined {
    const { queues } = this.#model;
    const watched = queues.watchedOn(session, shard);
    const { turns } = session;
    if (turns?.decides !== true) return queues.bestReady(watched, nowMs);
    const jobs = watched.flatMap((tube) => queues.nextOf(tube, nowMs) ?? []);
    if (turns.order === "weighted") return turns.choose(jobs);
    return jobs.find(({ id }) => id === given) ?? jobs.find(ends) ?? jobs[0];
  }

  /** The job that a shard names for a reserve over several. */
  candidate(
    session: ModelSession,
    shard: number,
    nowMs: number,
    given: number | undefined,
  ): ModelJob | undefined {
    return this.#next(session, shard, nowMs, given);
  }

  /** Reserves on this shard alone: returns a job, a reply, or a wait. */
  reserve(
    session: ModelSession,
    shard: number,
    timeoutMs: number,
    nowMs: number,
    given?: number,
  ): ModelJob | "timedOut" | "deadlineSoon" | "waits" {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#next(session, shard, nowMs, given);
    if (job !== undefined) {
      session.turns?.endChoice(job);
      return this.#model.waiting.hold(job, session, nowMs);
    }
    if (this.#model.connections.inMargin(session, nowMs, shard)) return "deadlineSoon";
    if (timeoutMs <= 0 || session.halfClosedOn.has(shard)) return "timedOut";
    this.#model.waiting.startWait(session, shard, undefined, nowMs + timeoutMs);
    return "waits";
  }

  /** Reserves a batch on this shard alone: as many reserves as fit together. */
  reserveBatch(
    session: ModelSession,
    shard: number,
    limits: BatchLimits,
    timeoutMs: number,
    nowMs: number,
    given: readonly number[] = [],
  ): ModelJob[] | "timedOut" | "deadlineSoon" | "waits" {
    this.#model.timers.runDue(shard, nowMs);
    const jobs = this.#batchNow(session, shard, limits, nowMs, given);
    if (jobs.length > 0) return jobs;
    const answer = this.reserve(session, shard, timeoutMs, nowMs);
    assert.ok(typeof answer === "string");
    return answer;
  }

  /** Takes a batch that fills, unless fewer than `min` jobs are ready for it. */
  takeFull(
    session: ModelSession,
    shard: number,
    limits: BatchLimits,
    min: number,
    nowMs: number,
    given: readonly number[],
  ): ModelJob[] {
    this.#model.timers.runDue(shard, nowMs);
    if (this.#model.waiting.readyFor(session, shard, nowMs) < min) return [];
    return this.#batchNow(session, shard, limits, nowMs, given);
  }

  #batchNow(
    session: ModelSession,
    shard: number,
    limits: BatchLimits,
    nowMs: number,
    given: readonly number[],
    jobs: ModelJob[] = [],
  ): ModelJob[] {
    let bytes = jobs.reduce((sum, { body }) => sum + body.length, 0);
    const ends = (job: ModelJob): boolean =>
      jobs.length > 0 && (bytes + job.body.length > limits.bytesMax || wasLost(job));
    for (;;) {
      const first = limits.oneGroup === true ? jobs[0] : undefined;
      const job =
        first === undefined
          ? this.#next(session, shard, nowMs, given[jobs.length], ends)
          : this.#model.queues.nextInGroup(first, nowMs);
      if (job === undefined || jobs.length === limits.jobsMax || ends(job)) break;
      bytes += job.body.length;
      const isLost = wasLost(job);
      if (first === undefined) session.turns?.endChoice(job);
      jobs.push(this.#model.waiting.hold(job, session, nowMs));
      if (isLost) break;
    }
    return jobs;
  }

  /** Returns a shard's jobs for a batch over several shards, up to the first that would end it. */
  listBatch(
    session: ModelSession,
    shard: number,
    limits: BatchLimits,
    nowMs: number,
    listed: readonly number[],
    places: readonly number[] | undefined,
  ): ModelJob[] {
    this.#model.timers.runDue(shard, nowMs);
    const lines = this.#model.queues
      .watchedOn(session, shard)
      .map((tube) => this.#model.queues.line(tube, nowMs));
    const ready = this.#inOrder(session, lines, listed, places).slice(0, limits.jobsMax);
    let bytes = 0;
    const last = ready.findIndex((job) => {
      bytes += job.body.length;
      // The jobs behind a job of a group depend on its taker.
      return wasLost(job) || bytes > limits.bytesMax || job.tube.groups !== undefined;
    });
    return last < 0 ? ready : ready.slice(0, last + 1);
  }

  /** Puts the lines of several tubes together; checks the places that the engine has `listed`. */
  #inOrder(
    { turns }: ModelSession,
    lines: readonly (readonly ModelJob[])[],
    listed: readonly number[],
    places: readonly number[] | undefined,
  ): ModelJob[] {
    assert.equal(places !== undefined, turns?.decides === true, "a list by weight has places");
    if (turns === undefined || places === undefined)
      return lines.flat().sort((a, b) => (isBetter(a, b) ? -1 : 1));
    for (const [index, id] of listed.entries()) turns.listed.set(id, places[index]!);
    if (turns.order === "weighted") {
      const merged = turns.merged(lines);
      const known = merged.slice(0, places.length).map(({ place }) => place);
      assert.deepEqual(places, known, "the places of a list by weight");
      return merged.map(({ job }) => job);
    }
    assert.deepEqual(
      places,
      places.toSorted((a, b) => a - b),
      "a list is in the order of its places",
    );
    const left = lines.map((line) => [...line]);
    const inOrder = listed.flatMap((id) => left.find(([first]) => first?.id === id)?.shift() ?? []);
    return [...inOrder, ...left.flat()];
  }

  /**
   * Takes a shard's part of a batch over several shards: undefined for each job that it may not
   * give.
   */
  takeBatch(
    session: ModelSession,
    shard: number,
    listed: readonly { id: number; pri: number; bodyBytes: number }[],
    isAlone: boolean,
    nowMs: number,
  ): (ModelJob | undefined)[] {
    this.#model.timers.runDue(shard, nowMs);
    const watched = this.#model.queues.watchedOn(session, shard);
    return listed.map(({ id, pri, bodyBytes }) => {
      const job = this.#model.queues.on(shard, id);
      if (job?.state !== "ready" || job.pri !== pri || !watched.includes(job.tube)) return undefined;
      if (job.body.length > bodyBytes) return undefined;
      const next = this.#model.queues.nextOf(job.tube, nowMs);
      if (next === undefined || (job.tube.groups !== undefined && next !== job)) return undefined;
      if (!this.#model.queues.mayGive(job, nowMs)) return undefined;
      return isAlone || !wasLost(job) ? this.#model.waiting.hold(job, session, nowMs) : undefined;
    });
  }

  /** Takes a listed job and those that follow it in its group. */
  takeGroup(
    session: ModelSession,
    shard: number,
    listed: { id: number; pri: number; bodyBytes: number },
    limits: BatchLimits,
    nowMs: number,
  ): ModelJob[] {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#model.queues.on(shard, listed.id);
    const isLost = job !== undefined && wasLost(job);
    const [first] = this.takeBatch(session, shard, [listed], true, nowMs);
    if (first === undefined) return [];
    return isLost ? [first] : this.#batchNow(session, shard, limits, nowMs, [], [first]);
  }

  /** Ends the client's wait; returns false if it does not wait. */
  abortWait(session: ModelSession, shard: number, nowMs: number): boolean {
    this.#model.timers.runDue(shard, nowMs);
    const wait = this.#model.waiting.waitOf(session, shard);
    if (wait === undefined || wait.number !== undefined) return false;
    this.#model.waiting.endWait(session, shard);
    return true;
  }

  /**
   * Touches some of the jobs that the session holds, those first that it has held longest; true if
   * no more is left.
   */
  touchSome(session: ModelSession, shard: number, begins: boolean, jobsMax: number, nowMs: number): boolean {
    // Before what is due: a touch begins with the jobs that are there when it comes.
    if (begins) session.touchedUpTo.set(shard, -1);
    this.#model.timers.runDue(shard, nowMs);
    const left = (): ModelJob[] =>
      this.#model.connections
        .held(session, shard)
        .filter((job) => job.reservedAt > (session.touchedUpTo.get(shard) ?? -1))
        .sort((a, b) => a.reservedAt - b.reservedAt);
    for (const job of left().slice(0, jobsMax)) {
      job.deadlineAtMs = nowMs + job.ttrSeconds * 1000;
      job.touchedAt = this.#model.event;
      session.touchedUpTo.set(shard, job.reservedAt);
    }
    return left().length === 0;
  }

  /** Takes the job whose turn it is, unless its place is behind this, or the job worse there. */
  takeInTurn(
    session: ModelSession,
    shard: number,
    bound: { readonly place: number; readonly pri: number; readonly id: number },
    nowMs: number,
    given: number | undefined,
  ): ModelJob | undefined {
    this.#model.timers.runDue(shard, nowMs);
    const { turns } = session;
    assert.ok(turns !== undefined, "a session that takes turns has some");
    turns.checkFloor(shard);
    const job = this.#next(session, shard, nowMs, given);
    if (job === undefined || (turns.order === "weighted-time" && given === undefined)) return undefined;
    if (turns.order === "weighted") {
      const place = turns.turnNow(job.tube);
      if (place > bound.place || (place === bound.place && !isUpTo(job, bound))) return undefined;
    }
    return this.#model.waiting.hold(job, session, nowMs);
  }

  takeUpTo(
    session: ModelSession,
    shard: number,
    pri: number,
    id: number,
    nowMs: number,
  ): ModelJob | undefined {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#model.queues.bestReady(this.#model.queues.watchedOn(session, shard), nowMs);
    if (job === undefined || !isUpTo(job, { pri, id })) return undefined;
    return this.#model.waiting.hold(job, session, nowMs);
  }

  waitShared(
    session: ModelSession,
    shard: number,
    timeoutAtMs: number,
    nowMs: number,
    given: number | undefined,
  ): void {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#next(session, shard, nowMs, given);
    if (job === undefined) {
      this.#model.waiting.startWait(session, shard, session.lastWait, timeoutAtMs);
    } else if (this.#model.waiting.claim(session, session.lastWait)) {
      session.turns?.waited(job);
      this.#model.waiting.hold(job, session, nowMs);
      this.#model.effect({ kind: "reserved", session: session.index, job: job.id });
    }
  }

  waitToFill(
    session: ModelSession,
    shard: number,
    fill: { readonly fillsAt: number; lingerMs: number },
    timeoutAtMs: number,
    nowMs: number,
  ): void {
    this.#model.timers.runDue(shard, nowMs);
    this.#model.waiting.waitToFill(session, shard, fill, timeoutAtMs, nowMs);
  }

  reserveJob(session: ModelSession, shard: number, id: number, nowMs: number): ByIdResult {
    this.#model.timers.runDue(shard, nowMs);
    const job = this.#model.queues.on(shard, id);
    if (job === undefined || job.state === "reserved" || job.state === "moving") return "not found";
    if (waits(job)) return "not found";
    const wasReady = job.state === "ready";
    this.#model.waiting.hold(job, session, nowMs);
    // It comes back ready, as a job that was reserved does, and not as what it was before.
    if (!wasReady) this.#model.log.keep(job);
    return "done";
  }
}

/** Returns whether a job is at least as good as this one. */
const isUpTo = (job: ModelJob, { pri, id }: { readonly pri: number; readonly id: number }): boolean =>
  job.pri < pri || (job.pri === pri && job.id <= id);
