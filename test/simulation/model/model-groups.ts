// Turn order of a tube's groups, recomputed each time from all its jobs.

import { COST_MAX } from "../../../src/protocol/limits.ts";
import type { SettingValues } from "../../../src/schema/setting.ts";
import type { State } from "./job-state.ts";
import { ModelBucket } from "./model-bucket.ts";
import { entriesOf, fieldsOf } from "./undo.ts";

/** Fields of a job that matter here. */
interface GroupedJob {
  readonly id: number;
  readonly pri: number;
  readonly state: State;
  /** For a job on its way to another shard: its state before. */
  readonly stateBefore: State;
  readonly policy: { readonly group: string; readonly weight: number; readonly cost: number };
}

interface Group {
  weight: number;
  turn: number;
}

const NO_GROUP = "";

export class ModelGroups<Job extends GroupedJob> {
  /** The jobs of the tube. */
  readonly #jobs: () => readonly Job[];
  readonly #values: () => Readonly<SettingValues>;
  /** Buckets by group, also of groups without jobs. */
  readonly #buckets: Map<string, ModelBucket>;
  readonly #known = new Map<string, Group>([[NO_GROUP, { weight: 1, turn: 0 }]]);
  #time = 0;
  /** A job of a group has cost more than 1. */
  #byTurns = false;
  /** The rate that the groups with jobs have, "" for none. */
  #rate: string;

  constructor(
    jobs: () => readonly Job[],
    values: () => Readonly<SettingValues>,
    buckets: Map<string, ModelBucket>,
  ) {
    this.#jobs = jobs;
    this.#values = values;
    this.#buckets = buckets;
    this.#rate = values().groupRate;
  }

  /** Groups with a key that are known, and those that have enough in work. */
  get count(): number {
    return this.#known.size - 1;
  }

  blocked(nowMs: number): number {
    return [...this.#known.keys()].filter(
      (key) => this.#ready(key).length > 0 && this.#isBlocked(key, this.#work(key), nowMs),
    ).length;
  }

  /** Returns a function that restores the present groups. */
  saved(): () => void {
    const [time, rate, byTurns] = [this.#time, this.#rate, this.#byTurns];
    const undo = [entriesOf(this.#known), fieldsOf(this.#known.values())];
    return () => {
      for (const each of undo) each();
      [this.#time, this.#rate, this.#byTurns] = [time, rate, byTurns];
    };
  }

  weigh(key: string, weight: number): void {
    if (key !== NO_GROUP) this.#group(key).weight = weight;
  }

  weightOf(key: string): number {
    return this.#group(key).weight;
  }

  #group(key: string): Group {
    return this.#known.get(key)!;
  }

  #ready(key: string): Job[] {
    const ready = this.#jobs().filter((job) => job.state === "ready" && job.policy.group === key);
    return ready.sort((a, b) => a.pri - b.pri || a.id - b.id);
  }

  /** What the jobs in work of a group cost. */
  #work(key: string): number {
    const isHeld = ({ state, stateBefore }: Job): boolean =>
      (state === "moving" ? stateBefore : state) === "reserved";
    const held = this.#jobs().filter((job) => isHeld(job) && job.policy.group === key);
    return held.reduce((sum, { policy: { cost } }) => sum + cost, 0);
  }

  /** Returns whether limits keep back the next job of a group with this much work. */
  #isBlocked(key: string, work: number, nowMs: number): boolean {
    const cost = this.#ready(key)[0]?.policy.cost ?? 1;
    if (key === NO_GROUP) return false;
    if (work > 0 && work + cost > this.#values().groupMaxReserved) return true;
    return this.#bucketOf(key)?.hasFor(cost, nowMs) === false;
  }

  #bucketOf(key: string): ModelBucket | undefined {
    return this.#rate === "" || key === NO_GROUP ? undefined : this.#buckets.get(key);
  }

  /** Applies changed settings. A group without jobs has its own until it has some again. */
  set(nowMs: number): void {
    const { groupRate, groupBurst } = this.#values();
    const settings = { rate: groupRate, burst: groupBurst };
    const had = this.#rate !== "";
    this.#rate = groupRate;
    if (groupRate === "") return;
    for (const key of new Set(this.#jobs().map(({ policy }) => policy.group))) {
      if (had) this.#buckets.get(key)?.set(settings, nowMs);
      else this.#begin(key);
    }
  }

  /** Gives a group with jobs its bucket: a full one if its settings are others now. */
  #begin(key: string): void {
    const { groupRate, groupBurst } = this.#values();
    const settings = { rate: groupRate, burst: groupBurst };
    if (key === NO_GROUP || groupRate === "") return;
    if (this.#buckets.get(key)?.isSetTo(settings) !== true) this.#buckets.set(key, new ModelBucket(settings));
  }

  /**
   * Adds a job that was put, or that came from another tube, which leaves the group's weight alone.
   */
  joined({ policy: { group, weight } }: Job, isPut: boolean): void {
    if (!this.#known.has(group)) this.#known.set(group, { weight: 1, turn: this.#time });
    // At a restart, all jobs of the log are there before the first of them joins.
    const isFirst = this.#jobs().filter((job) => job.policy.group === group).length === 1;
    if (isFirst || !this.#buckets.has(group)) this.#begin(group);
    if (group !== NO_GROUP && isPut) this.#group(group).weight = weight;
  }

  /** Notes a ready job: its group's turn can't lie in the past. */
  becameReady({ policy: { group, cost } }: Job): void {
    if (group !== NO_GROUP && cost > 1) this.#byTurns = true;
    if (this.#ready(group).length === 1)
      this.#group(group).turn = Math.max(this.#group(group).turn, this.#earliest);
  }

  get #earliest(): number {
    return this.#time - (this.#byTurns ? COST_MAX : 0);
  }

  /** Notes a job that was given out. */
  taken({ policy: { group: own, cost } }: Job, nowMs: number): void {
    const gives = [...this.#known.keys()].filter((key) => {
      const before = this.#work(key) - (key === own ? cost : 0);
      return this.#ready(key).length > 0 && !this.#isBlocked(key, before, nowMs);
    });
    const all = new Set([...gives, own]);
    const group = this.#group(own);
    const start = Math.max(group.turn, this.#earliest);
    group.turn = start + cost / group.weight;
    this.#time += cost / [...all].reduce((sum, key) => sum + this.#group(key).weight, 0);
    if (this.#byTurns) {
      // Time is at least the turn of the first of them.
      const others = this.#firstOf(gives.filter((key) => key !== own));
      const next = others === undefined ? start : this.#group(others.policy.group).turn;
      this.#time = Math.max(this.#time, Math.min(start, next));
    }
    this.#bucketOf(own)?.take(nowMs, cost);
    this.left();
  }

  /** Notes that a job is gone. */
  left(): void {
    const used = new Set(this.#jobs().map(({ policy }) => policy.group));
    for (const [key, { turn }] of this.#known)
      if (key !== NO_GROUP && !used.has(key) && turn <= this.#time) this.#known.delete(key);
  }

  /** Returns the next job to give. */
  next(beyondLimits: boolean, nowMs: number): Job | undefined {
    return this.#firstOf(
      [...this.#known.keys()].filter((key) => beyondLimits || !this.#isBlocked(key, this.#work(key), nowMs)),
    );
  }

  /** Returns the next job of one group, unless its limits keep it back. */
  nextOf(key: string, nowMs: number): Job | undefined {
    return this.#isBlocked(key, this.#work(key), nowMs) ? undefined : this.#ready(key)[0];
  }

  /** Returns the next job of some groups. */
  #firstOf(keys: readonly string[]): Job | undefined {
    const heads = keys.flatMap((key) => this.#ready(key)[0] ?? []);
    const share = ({ policy: { group } }: Job): number =>
      this.#byTurns ? 0 : this.#work(group) / this.#group(group).weight;
    const turn = ({ policy: { group } }: Job): number => this.#group(group).turn;
    return heads.sort(
      (a, b) =>
        a.pri - b.pri ||
        (Math.abs(share(a) - share(b)) < 1e-9 ? 0 : share(a) - share(b)) ||
        turn(a) - turn(b) ||
        a.id - b.id,
    )[0];
  }
}
