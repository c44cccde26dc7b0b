// Timers of the model. Where several are due at once, it tries one order after another until one
// yields the effects of the engine.

import { DEADLINE_MARGIN_MS } from "../../../src/protocol/limits.ts";
import { NEVER } from "./job-order.ts";
import { LOST, type ModelDeaths } from "./model-deaths.ts";
import type { ModelKey } from "./model-policies.ts";
import type { ModelQueues } from "./model-queues.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelJob, ModelSession, ModelTube } from "./model-types.ts";
import type { ModelWaits } from "./model-waits.ts";
import type { SessionRegistry } from "./session-registry.ts";
import type { TubeRegistry } from "./tube-registry.ts";

const AFTER_DEADLINE_MS = 0.001;

/** Returns the due items of the earliest time. */
function soonest<Due>(all: Iterable<Due>, nowMs: number, atMs: (each: Due) => number): Due[] {
  const due = [...all].filter((each) => atMs(each) <= nowMs);
  const earliestMs = Math.min(...due.map(atMs));
  return due.filter((each) => atMs(each) === earliestMs);
}

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly registry: TubeRegistry;
  readonly connections: SessionRegistry;
  readonly waiting: ModelWaits;
  readonly queues: ModelQueues;
  readonly deaths: ModelDeaths;
}

export class ModelTimers {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  runDue(shard: number, nowMs: number): void {
    this.#forgetKeys(shard, nowMs);
    this.#inSomeOrder(() => this.#dueToExpire(shard, nowMs));
    this.#inSomeOrder(() => this.#dueDelayed(shard, nowMs));
    this.#endPauses(shard, nowMs);
    this.#inSomeOrder(() => this.#dueTokens(shard, nowMs));
    this.#inSomeOrder(() => this.#dueSessions(shard, nowMs));
  }

  /**
   * Does what is due until nothing is; `due` are those that may come next, as they are due at the
   * same moment.
   */
  #inSomeOrder(due: () => readonly (() => void)[]): void {
    if (this.#tryOrders(due)) return;
    // No order fits: any of them shows that.
    for (let [first] = due(); first !== undefined; [first] = due()) first();
  }

  /** True if some order comes to what was seen; then all is done. */
  #tryOrders(due: () => readonly (() => void)[]): boolean {
    const next = due();
    if (next.length === 0) return this.#model.fitsSeen();
    return next.some((each) => {
      const undo = this.#model.saved();
      each();
      if (this.#model.fitsSeen() && this.#tryOrders(due)) return true;
      undo();
      return false;
    });
  }

  #dueDelayed(shard: number, nowMs: number): (() => void)[] {
    const due = soonest(this.#model.jobs.values(), nowMs, ({ state, tube, deadlineAtMs }) =>
      state === "delayed" && tube.shard === shard ? deadlineAtMs : NEVER,
    );
    // Within a tube the smaller id comes first; between tubes no order is promised.
    const firsts = due.filter((job) => !due.some((other) => other.tube === job.tube && other.id < job.id));
    return firsts.map((job) => () => {
      this.#model.queues.becomeReady(job);
      this.#model.waiting.serve(job.tube, nowMs);
    });
  }

  #endPauses(shard: number, nowMs: number): void {
    const resumed = new Set<ModelTube>();
    for (const tube of this.#model.tubes.values()) {
      if (tube.shard !== shard || tube.pausedUntilMs === undefined || tube.pausedUntilMs > nowMs) continue;
      tube.pausedUntilMs = undefined;
      tube.pauseSeconds = 0;
      tube.unpausedSince = this.#model.event;
      resumed.add(tube);
    }
    const all = [...resumed];
    while (resumed.size > 0) {
      const best = this.#model.queues.bestReady(resumed, nowMs);
      if (best === undefined) break;
      if (!this.#model.waiting.serveOne(best.tube, nowMs)) resumed.delete(best.tube);
    }
    this.#model.waiting.serveFills(all, nowMs);
  }

  /** Returns when the session is due on a shard. */
  dueAtMs(session: ModelSession, shard: number): number {
    const soonestMs = this.#model.connections.held(session, shard)[0]?.deadlineAtMs ?? NEVER;
    const wait = this.#model.waiting.waitOf(session, shard);
    if (wait === undefined || wait.told) return soonestMs + AFTER_DEADLINE_MS;
    return Math.min(wait.timeoutAtMs, soonestMs - DEADLINE_MARGIN_MS, soonestMs + AFTER_DEADLINE_MS);
  }

  /** Tubes that have a token again, and both a job and a client that waits for it. */
  #dueTokens(shard: number, nowMs: number): (() => void)[] {
    const tubes = [...this.#model.tubes.values()].filter(
      (tube) => tube.shard === shard && this.#model.waiting.wantsJobs(tube, nowMs),
    );
    const nexts = tubes.flatMap((tube) => this.#model.queues.nextOf(tube, nowMs) ?? []);
    // A tube may have come to its turn by tokens of another group, so no order is promised.
    const hasRates = ({ tube }: ModelJob): boolean => tube.resolved.values.groupRate !== "";
    const ofTubes = soonest(
      nexts.filter((job) => !hasRates(job)),
      nowMs,
      ({ tube, policy: { cost } }) => tube.bucket?.tokenAtMs(cost) ?? NEVER,
    );
    const due = [...ofTubes, ...nexts.filter(hasRates)];
    return due.map(
      ({ tube }) =>
        () =>
          this.#model.waiting.serve(tube, nowMs),
    );
  }

  #dueSessions(shard: number, nowMs: number): (() => void)[] {
    const due = soonest(this.#model.sessions.values(), nowMs, (session) => this.dueAtMs(session, shard));
    return due.map((session) => () => this.#sessionDue(session, shard, nowMs));
  }

  #sessionDue(session: ModelSession, shard: number, nowMs: number): void {
    const inMargin = this.#model.connections.inMargin(session, nowMs, shard);
    for (;;) {
      const job = this.#model.connections.held(session, shard)[0];
      if (job === undefined || job.deadlineAtMs + AFTER_DEADLINE_MS > nowMs) break;
      job.timeouts++;
      job.tube.timeouts++;
      this.#model.jobTimeouts++;
      session.expiredAt = this.#model.event;
      this.#model.deaths.fail(job, "timed-out", nowMs);
      this.#model.deaths.endReservation(job, 0, LOST, nowMs);
      this.#model.waiting.serve(job.tube, nowMs);
    }
    const wait = this.#model.waiting.waitOf(session, shard);
    if (wait === undefined) return;
    if (inMargin || wait.timeoutAtMs <= nowMs) {
      if (wait.number === undefined) {
        this.#model.waiting.endWait(session, shard);
        this.#model.effect({ kind: inMargin ? "deadlineSoon" : "timedOut", session: session.index });
      } else if (wait.fill === undefined || !wait.told) {
        wait.timeoutAtMs = NEVER;
        wait.told = true;
        this.#model.effect({ kind: "waitDue", session: session.index });
      }
    } else if (wait.fill === undefined) {
      wait.told = false;
    }
  }

  /**
   * Forgets remembered keys whose time is over. That of a job that is here makes no record, also
   * while the other shard's answer for a job that left is on its way.
   */
  #forgetKeys(shard: number, nowMs: number): void {
    const isMine = ({ tube }: ModelKey): boolean => this.#model.registry.tubeShard(tube) === shard;
    for (const { record } of this.#model.orphans.filter(isMine))
      this.#model.changes.push({ id: record, job: undefined });
    this.#model.orphans = this.#model.orphans.filter((key) => !isMine(key));
    const isOver = (key: ModelKey): boolean => !key.isHeld && key.untilMs <= nowMs && isMine(key);
    const isHere = (id: number): boolean =>
      this.#model.queues.on(shard, id) !== undefined ||
      this.#model.copies.some((copy) => copy.id === id && copy.tube.shard === shard);
    const gone = this.#model.keys.filter((key) => isOver(key) && (key.record > 0 || !isHere(key.id)));
    for (const { id, record } of gone)
      this.#model.changes.push({ id: record > 0 ? record : id, job: undefined });
    this.#model.keys = this.#model.keys.filter((key) => !isOver(key));
  }

  /**
   * Jobs whose time is over, the first first. Their tube may have a token since, and gives what is
   * behind them.
   */
  #dueToExpire(shard: number, nowMs: number): (() => void)[] {
    const due = soonest(this.#model.jobs.values(), nowMs, ({ tube, state, policy: { expiresAtMs } }) =>
      tube.shard === shard && (state === "ready" || state === "delayed") && expiresAtMs > 0
        ? expiresAtMs
        : NEVER,
    );
    return due.map((job) => () => {
      const { tube } = job;
      this.#model.deaths.expire(job, nowMs);
      this.#model.waiting.serve(tube, nowMs);
    });
  }
}
