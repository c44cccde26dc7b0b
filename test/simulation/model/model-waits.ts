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
    this.#model.waits.push({ session, shard, number, timeoutAtMs, told: false });
  }

  endWait(session: ModelSession, shard: number): void {
    this.#model.waits = this.#model.waits.filter((wait) => wait.session !== session || wait.shard !== shard);
  }

  firstWait(tube: ModelTube): Wait | undefined {
    return this.#model.waits.find((wait) => wait.shard === tube.shard && tube.watchers.has(wait.session));
  }

  serve(tube: ModelTube, nowMs: number): void {
    while (this.serveOne(tube, nowMs)) {
      // as long as there is a job and a waiter
    }
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

  stopSharedWait(session: ModelSession, shard: number): void {
    if (this.waitOf(session, shard)?.number !== undefined) this.endWait(session, shard);
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
