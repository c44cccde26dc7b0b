// Sessions of the model: their numbers, their reservations and their end.

import { DEADLINE_MARGIN_MS } from "../../../src/protocol/limits.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelJob, ModelSession } from "./model-types.ts";

type Model = ModelState;

export class SessionRegistry {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  session(index: number): ModelSession {
    const known = this.#model.sessions.get(index) ?? this.#model.moved.get(index);
    if (known !== undefined) return known;
    const session: ModelSession = {
      ...{ index, openWait: 0, lastWait: 0, halfClosedOn: new Set(), expiredAt: 0 },
      touchedUpTo: new Map(),
      turns: undefined,
    };
    this.#model.sessions.set(index, session);
    return session;
  }

  /** Gives the session another number. */
  rename(index: number, now: number): void {
    const session = this.session(index);
    this.#model.sessions.delete(index);
    session.index = now;
    this.#model.sessions.set(now, session);
  }

  /**
   * Keeps the session's old number: requests under it belong to the session until all shards ran
   * them.
   */
  keepMoved(index: number): void {
    this.#model.moved.set(index, this.session(index));
  }

  /** Ends that: the number may be in use again. */
  forgetMoved(index: number): void {
    this.#model.moved.delete(index);
  }

  /** Describes what others can still see of a connection: nothing once its end is visible. */
  traces(session: ModelSession): string[] {
    const tubes = [...this.#model.tubes.values()];
    return [
      ...this.held(session).map((job) => `job ${job.id} is reserved`),
      ...this.#model.waits
        .filter((wait) => wait.session === session)
        .map((wait) => `it waits on shard ${wait.shard}`),
      ...tubes.filter((tube) => tube.users.has(session)).map((tube) => `it uses ${tube.name}`),
      ...tubes.filter((tube) => tube.watchers.has(session)).map((tube) => `it watches ${tube.name}`),
    ];
  }

  /** Jobs that the session holds on a shard, soonest deadline first. */
  held(session: ModelSession, shard?: number): ModelJob[] {
    return [...this.#model.jobs.values()]
      .filter((job) => job.holder === session && (shard === undefined || job.tube.shard === shard))
      .sort((a, b) => a.deadlineAtMs - b.deadlineAtMs || a.id - b.id);
  }

  inMargin(session: ModelSession, nowMs: number, shard?: number): boolean {
    const first = this.held(session, shard)[0];
    return first !== undefined && nowMs >= first.deadlineAtMs - DEADLINE_MARGIN_MS;
  }
}
