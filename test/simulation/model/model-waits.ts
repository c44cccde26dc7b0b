// Waits of the model, and the jobs given to those who wait.

import assert from "node:assert/strict";
import { isOver, NOTHING_SAID } from "./job-order.ts";
import type { ModelKeys } from "./model-keys.ts";
import type { ModelLog } from "./model-log.ts";
import type { ModelQueues } from "./model-queues.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelJob, ModelSession, ModelTube, Wait } from "./model-types.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly uniqueKeys: ModelKeys;
  readonly log: ModelLog;
  readonly queues: ModelQueues;
}

export class ModelWaits {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  waitOf(session: ModelSession, shard: number): Wait | undefined {
    return this.#model.waits.find((wait) => wait.session === session && wait.shard === shard);
  }

  startWait(session: ModelSession, shard: number, number: number | undefined, timeoutAtMs: number): void {
    assert.equal(this.waitOf(session, shard), undefined, "a session waits once on a shard");
    this.#model.waits.push({ session, shard, number, timeoutAtMs, told: false, fill: undefined });
  }

  endWait(session: ModelSession, shard: number): void {
    this.#model.waits = this.#model.waits.filter((wait) => wait.session !== session || wait.shard !== shard);
  }

  /** Ends a wait that no job ends. The acceptors of others may count in its place. */
  stopWait(session: ModelSession, shard: number, nowMs: number): void {
    const wait = this.waitOf(session, shard);
    this.endWait(session, shard);
    if (wait?.fill !== undefined && wait.told)
      this.serveFills(this.#model.queues.watchedOn(session, shard), nowMs);
  }

  #waitsFor(tube: ModelTube, fills: boolean): Wait[] {
    return this.#model.waits.filter(
      (wait) =>
        wait.shard === tube.shard && tube.watchers.has(wait.session) && (wait.fill !== undefined) === fills,
    );
  }

  /** Returns whether a job that the tube can give would change a wait. */
  wantsJobs(tube: ModelTube, nowMs: number): boolean {
    if (this.firstWait(tube) !== undefined) return true;
    const fills = this.#waitsFor(tube, true);
    const isOneTold = fills.some(({ told }) => told);
    return fills.some(
      (wait) =>
        !wait.told &&
        (wait.fill!.lingerMs !== Number.POSITIVE_INFINITY ||
          (!isOneTold && this.#isFull(wait, nowMs) && (this.#isNext(wait) || !this.#isBehind(wait, nowMs)))),
    );
  }

  /** Whether the engine tells this one next. */
  #isNext({ session }: Wait): boolean {
    const seen = this.#model.nextSeen;
    return seen?.kind === "waitDue" && seen.session === session.index;
  }

  /** Whether another one has been told for some of the same jobs: this one is examined after it. */
  #isBehind({ session, shard }: Wait, nowMs: number): boolean {
    return this.#model.queues
      .watchedOn(session, shard)
      .some((tube) => this.#gives(tube, nowMs) && this.#waitsFor(tube, true).some(({ told }) => told));
  }

  #isFull({ session, shard, fill }: Wait, nowMs: number): boolean {
    return this.readyFor(session, shard, nowMs) >= fill!.fillsAt;
  }

  firstWait(tube: ModelTube): Wait | undefined {
    return this.#waitsFor(tube, false)[0];
  }

  serve(tube: ModelTube, nowMs: number): void {
    while (this.serveOne(tube, nowMs)) {
      // as long as there is a job and a waiter
    }
    this.serveFills([tube], nowMs);
  }

  // --- batches that fill ------------------------------------------------------------------------

  /** Lets a session wait, or wait on, for a batch to fill. */
  waitToFill(
    session: ModelSession,
    shard: number,
    fill: NonNullable<Wait["fill"]>,
    timeoutAtMs: number,
    nowMs: number,
  ): void {
    if (this.waitOf(session, shard) === undefined)
      this.startWait(session, shard, session.lastWait, timeoutAtMs);
    Object.assign(this.waitOf(session, shard)!, { fill, timeoutAtMs, told: false, number: session.lastWait });
    this.serveFills(this.#model.queues.watchedOn(session, shard), nowMs);
  }

  /** Jobs that are ready for the session, in tubes that give one. */
  readyFor(session: ModelSession, shard: number, nowMs: number): number {
    return this.#model.queues
      .watchedOn(session, shard)
      .filter((tube) => this.#gives(tube, nowMs))
      .flatMap((tube) => this.#model.queues.jobsOf(tube).filter(({ state }) => state === "ready")).length;
  }

  #gives(tube: ModelTube, nowMs: number): boolean {
    const job = this.#model.queues.bestReady([tube], nowMs);
    return job !== undefined && !isOver(job, nowMs);
  }

  /**
   * The first jobs of these tubes begin the time of a linger. Whose acceptor is told first is left
   * to the engine, but it tells one that may count, unless another of one of its tubes is told.
   */
  serveFills(tubes: readonly ModelTube[], nowMs: number): void {
    const giving = tubes.filter((tube) => this.#waitsFor(tube, true).length > 0 && this.#gives(tube, nowMs));
    const waits = giving.map((tube) => this.#waitsFor(tube, true));
    for (const wait of waits.flat())
      if (wait.fill!.lingerMs !== Number.POSITIVE_INFINITY && !wait.told) {
        wait.timeoutAtMs = Math.min(wait.timeoutAtMs, nowMs + wait.fill!.lingerMs);
        wait.fill!.lingerMs = Number.POSITIVE_INFINITY;
        if (wait.timeoutAtMs <= nowMs) this.#tell(wait);
      }
    const full = waits.map((ofTube) =>
      ofTube.some(({ told }) => told) ? [] : ofTube.filter((wait) => this.#isFull(wait, nowMs)),
    );
    for (;;) {
      const told = full.flat().find((wait) => this.#isNext(wait));
      if (told === undefined || told.told) break;
      this.#tell(told);
    }
    for (const wait of full.flat()) if (!this.#isBehind(wait, nowMs)) this.#tell(wait);
  }

  #tell(wait: Wait): void {
    wait.told = true;
    wait.timeoutAtMs = Number.POSITIVE_INFINITY;
    this.#model.effect({ kind: "waitDue", session: wait.session.index });
  }

  serveOne(tube: ModelTube, nowMs: number): boolean {
    const job = this.#model.queues.bestReady([tube], nowMs);
    if (job === undefined || isOver(job, nowMs)) return false;
    for (;;) {
      const wait = this.firstWait(tube);
      if (wait === undefined) return false;
      this.endWait(wait.session, wait.shard);
      if (wait.number !== undefined && !this.claim(wait.session, wait.number)) continue;
      wait.session.turns?.waited(job);
      this.hold(job, wait.session, nowMs);
      this.#model.effect({ kind: "reserved", session: wait.session.index, job: job.id });
      return true;
    }
  }

  /** Ends the wait for a shard, which it may if the wait is open. */
  claim(session: ModelSession, number: number): boolean {
    const won = session.openWait === number;
    if (won) session.openWait = 0;
    this.#model.effect({ kind: "claim", session: session.index, won });
    return won;
  }

  openWait(session: ModelSession, number: number): void {
    session.openWait = number;
    session.lastWait = number;
  }

  /** Ends the wait for the acceptor; returns false if it is over. */
  acceptorClaims(session: ModelSession, number: number): boolean {
    const won = session.openWait === number;
    if (won) session.openWait = 0;
    return won;
  }

  stopSharedWait(session: ModelSession, shard: number, nowMs: number): void {
    if (this.waitOf(session, shard)?.number !== undefined) this.stopWait(session, shard, nowMs);
  }

  hold(job: ModelJob, session: ModelSession, nowMs: number): ModelJob {
    session.turns?.took(job);
    job.state = "reserved";
    job.holder = session;
    job.reserves++;
    job.tube.reserves++;
    job.reservedAt = ++this.#model.reservations;
    job.deadlineAtMs = nowMs + job.ttrSeconds * 1000;
    job.touchedAt = this.#model.event;
    Object.assign(job, NOTHING_SAID);
    if (job.tube.resolved.values.keepFinished > 0) job.startedAtMs = nowMs;
    job.tube.groups?.taken(job, nowMs);
    job.tube.bucket?.take(nowMs, job.policy.cost);
    this.#model.given.set(job.id, job);
    if (job.policy.untilReserve && this.#model.uniqueKeys.keyOf(job)?.isHeld === true) {
      this.#model.uniqueKeys.endKey(job, nowMs);
      this.#model.log.keep(job);
    }
    return job;
  }
}
