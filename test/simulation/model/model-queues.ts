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
    const open = new Set([...tubes].filter((tube) => this.#isOpen(tube, nowMs)));
    // One look at all jobs for all tubes that are nothing but lists.
    const plain = [...this.#model.jobs.values()].filter(
      ({ state, tube }) => state === "ready" && tube.groups === undefined && open.has(tube),
    );
    const grouped = [...open].flatMap(({ groups }) => groups?.next(false) ?? []);
    return bestOf([...plain, ...grouped]);
  }

  /** Includes moving jobs until this shard knows that they have arrived. */
  jobsOf(tube: ModelTube): ModelJob[] {
    return [...this.#model.jobs.values(), ...this.#model.copies].filter((job) => job.tube === tube);
  }

  /** Returns how many more jobs of a tube may be given now. */
  #roomOf(tube: ModelTube, nowMs: number): number {
    const tokens = Math.max(0, Math.floor(tube.bucket?.tokens(nowMs) ?? NEVER));
    if (tube.resolved.values.paused === "yes") return 0;
    if (tube.resolved.values.maxReserved === NEVER) return tokens;
    const held = this.jobsOf(tube).filter(isInWork).length;
    return Math.min(tokens, Math.max(0, tube.resolved.values.maxReserved - held));
  }

  /** The job of a tube that is given next, if one may be. */
  nextOf(tube: ModelTube, nowMs: number): ModelJob | undefined {
    return this.bestReady([tube], nowMs);
  }

  #isOpen(tube: ModelTube, nowMs: number): boolean {
    return tube.pausedUntilMs === undefined && this.#roomOf(tube, nowMs) > 0;
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
    const { tube } = job;
    if (job.policy.group !== "" && tube.groups === undefined) {
      tube.groups = new ModelGroups(
        () => this.jobsOf(tube),
        () => tube.resolved.values.groupMaxReserved,
      );
      tube.wasLimited = true;
    }
    tube.groups?.joined(job, isPut);
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
    return ready.sort((a, b) => (isBetter(a, b) ? -1 : 1)).slice(0, this.#roomOf(tube, nowMs));
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
    if (tube.groups !== undefined) return tube.groups.next(true);
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
