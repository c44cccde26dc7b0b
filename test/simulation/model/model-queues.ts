// Queues of the model, each a search through all jobs.

import { WAITS_UNTIL_MS } from "../../../src/engine/state/batch-table.ts";
import { bestOf, isBetter, isInWork, NEVER } from "./job-order.ts";
import type { State } from "./job-state.ts";
import { ModelGroups } from "./model-groups.ts";
import type { ModelKeys } from "./model-keys.ts";
import type { ModelState } from "./model-state.ts";
import type { ModelJob, ModelSession, ModelTube } from "./model-types.ts";

/** Parts of the model that this file uses. */
interface Model extends ModelState {
  readonly uniqueKeys: ModelKeys;
}

export class ModelQueues {
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
  }

  bestReady(tubes: Iterable<ModelTube>, nowMs: number): ModelJob | undefined {
    const open = new Set([...tubes].filter(({ pausedUntilMs }) => pausedUntilMs === undefined));
    // One look at all jobs for all tubes that are nothing but lists.
    const heads = new Map<ModelTube, ModelJob>();
    for (const job of this.#model.jobs.values()) {
      const { state, tube } = job;
      if (state !== "ready" || tube.groups !== undefined || !open.has(tube)) continue;
      const head = heads.get(tube);
      if (head === undefined || isBetter(job, head)) heads.set(tube, job);
    }
    const grouped = [...open].flatMap(({ groups }) => groups?.next(false, nowMs) ?? []);
    return bestOf([...heads.values(), ...grouped].filter((job) => this.mayGive(job, nowMs)));
  }

  /** Includes moving jobs until this shard knows that they have arrived. */
  jobsOf(tube: ModelTube): ModelJob[] {
    return [...this.#model.jobs.values(), ...this.#model.copies].filter((job) => job.tube === tube);
  }

  /** What the held jobs of a tube cost. */
  #workOf(tube: ModelTube): number {
    return this.jobsOf(tube)
      .filter(isInWork)
      .reduce((sum, { policy: { cost } }) => sum + cost, 0);
  }

  /** Returns whether the limits of its tube let a job be given. */
  mayGive({ tube, policy: { cost } }: ModelJob, nowMs: number): boolean {
    const { paused, maxReserved } = tube.resolved.values;
    if (paused === "yes" || tube.bucket?.hasFor(cost, nowMs) === false) return false;
    if (maxReserved === NEVER) return true;
    const work = this.#workOf(tube);
    return work === 0 || work + cost <= maxReserved;
  }

  /** The job of a tube that is given next, if one may be. */
  nextOf(tube: ModelTube, nowMs: number): ModelJob | undefined {
    return this.bestReady([tube], nowMs);
  }

  /** The job that follows one in its tube and group, if it may be given. */
  nextInGroup({ tube, policy: { group } }: ModelJob, nowMs: number): ModelJob | undefined {
    if (tube.groups === undefined) return this.nextOf(tube, nowMs);
    const next = tube.groups.nextOf(group, nowMs);
    return next !== undefined && this.mayGive(next, nowMs) ? next : undefined;
  }

  watchedOn(session: ModelSession, shard: number): ModelTube[] {
    return [...this.#model.tubes.values()].filter(
      (tube) => tube.shard === shard && tube.watchers.has(session),
    );
  }

  isFull(tube: ModelTube, bodyBytes: number): boolean {
    const { maxJobs, maxBytes } = tube.resolved.values;
    const jobs = this.jobsOf(tube);
    const bytes = jobs.reduce((sum, { body }) => sum + body.length, 0);
    return jobs.length >= maxJobs || bytes + bodyBytes > maxBytes;
  }

  /** Only a put says what a group weighs. */
  joinGroup(job: ModelJob, isPut = true): void {
    if (job.policy.group !== "") this.makeGroups(job.tube);
    job.tube.groups?.joined(job, isPut);
  }

  makeGroups(tube: ModelTube): void {
    if (tube.groups !== undefined) return;
    tube.groups = new ModelGroups(
      () => this.jobsOf(tube),
      () => tube.resolved.values,
      this.#model.groupBucketsOf(tube.name),
    );
    tube.wasLimited = true;
  }

  buryLast(job: ModelJob): void {
    job.buriedAt = ++this.#model.burials;
    job.buriedSince = this.#model.event;
  }

  /**
   * Jobs that were buried in one event of several that were due at the same moment: no order is
   * promised, and this is what it was.
   */
  orderBurials(tube: ModelTube, ids: readonly number[]): void {
    const jobs = this.buried(tube).filter(({ buriedSince }) => buriedSince === this.#model.event);
    const places = jobs.map(({ buriedAt }) => buriedAt);
    jobs.sort((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id));
    for (const [index, job] of jobs.entries()) job.buriedAt = places[index]!;
  }

  /** Jobs of a tube that may be given one after the other, as far as that is known before. */
  line(tube: ModelTube, nowMs: number): ModelJob[] {
    const next = this.nextOf(tube, nowMs);
    if (next === undefined) return [];
    if (tube.groups !== undefined) return [next];
    const ready = this.jobsOf(tube).filter(({ state }) => state === "ready");
    const tokens = Math.floor(tube.bucket?.tokens(nowMs) ?? NEVER);
    const room = Math.min(tokens, tube.resolved.values.maxReserved - this.#workOf(tube));
    let cost = 0;
    const inOrder = ready.sort((a, b) => (isBetter(a, b) ? -1 : 1));
    const end = inOrder.findIndex(({ policy }, at) => (cost += policy.cost) > room && at > 0);
    return end < 0 ? inOrder : inOrder.slice(0, end);
  }

  /** Returns the jobs that have arrived elsewhere and are still in the table of a shard. */
  copiesOn(shard: number): ModelJob[] {
    return this.#model.copies.filter(({ tube }) => tube.shard === shard);
  }

  /**
   * Puts a job into another tube; a dead one lives again, unless it stays dead. Calls `left` once
   * it has left its tube.
   */
  enter(
    job: ModelJob,
    there: ModelTube,
    state: State,
    staysDead: boolean,
    left: () => void,
    asReady = false,
  ): void {
    const { policy } = job;
    const livesAgain = policy.reason !== "none" && !staysDead;
    if (livesAgain) {
      policy.reason = "none";
      policy.origin = "";
      policy.leaves = false;
      policy.attemptsBase = job.reserves;
    }
    there.movedIn++;
    policy.hasMoved = true;
    job.tube = there;
    left();
    if (policy.reason === "none") this.#model.uniqueKeys.takeKey(job);
    this.joinGroup(job, false);
    if ((livesAgain || asReady || state === "ready") && policy.after === 0) this.becomeReady(job);
    else job.state = state;
    if (job.state === "buried") this.buryLast(job);
  }

  /** Buried jobs of the tube in the order of their burial. */
  buried(tube: ModelTube): ModelJob[] {
    return [...this.#model.jobs.values()]
      .filter((job) => job.state === "buried" && job.tube === tube)
      .sort((a, b) => a.buriedAt - b.buriedAt);
  }

  firstBuried(tube: ModelTube): ModelJob | undefined {
    return this.buried(tube)[0];
  }

  firstDelayed(tube: ModelTube): ModelJob | undefined {
    return [...this.#model.jobs.values()]
      .filter((job) => job.state === "delayed" && job.tube === tube)
      .sort((a, b) => a.deadlineAtMs - b.deadlineAtMs || a.id - b.id)[0];
  }

  /** The best ready job of the tube, paused or not. */
  firstReady(tube: ModelTube): ModelJob | undefined {
    if (tube.groups !== undefined) return tube.groups.next(true, 0);
    return bestOf(this.jobsOf(tube).filter(({ state }) => state === "ready"));
  }

  on(shard: number, id: number): ModelJob | undefined {
    const job = this.#model.jobs.get(id);
    return job?.tube.shard === shard ? job : undefined;
  }

  heldBy(session: ModelSession, shard: number, id: number): ModelJob | undefined {
    const job = this.on(shard, id);
    return job?.holder === session ? job : undefined;
  }

  becomeReady(job: ModelJob): void {
    job.state = "ready";
    job.holder = undefined;
    job.readySince = this.#model.event;
    job.tube.groups?.becameReady(job);
  }

  becomeDelayed(job: ModelJob, nowMs: number, delayMs = job.delaySeconds * 1000): void {
    job.state = "delayed";
    job.holder = undefined;
    job.deadlineAtMs = job.policy.after === 0 ? nowMs + delayMs : WAITS_UNTIL_MS;
  }
}
