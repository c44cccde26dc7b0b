// Turn order of a tube's groups, recomputed each time from all its jobs.

import type { State } from "./job-state.ts";
import { entriesOf, fieldsOf } from "./undo.ts";

/** Fields of a job that matter here. */
interface GroupedJob {
  readonly id: number;
  readonly pri: number;
  readonly state: State;
  /** For a job on its way to another shard: its state before. */
  readonly stateBefore: State;
  readonly policy: { readonly group: string; readonly weight: number };
}

interface Group {
  weight: number;
  turn: number;
}

const NO_GROUP = "";

export class ModelGroups<Job extends GroupedJob> {
  /** The jobs of the tube. */
  readonly #jobs: () => readonly Job[];
  /** Returns how many jobs of a group may be held. */
  readonly #heldMax: () => number;
  readonly #known = new Map<string, Group>([[NO_GROUP, { weight: 1, turn: 0 }]]);
  #time = 0;

  constructor(jobs: () => readonly Job[], heldMax: () => number) {
    this.#jobs = jobs;
    this.#heldMax = heldMax;
  }

  /** Groups with a key that are known, and those that have enough in work. */
  get count(): number {
    return this.#known.size - 1;
  }

  get blocked(): number {
    return [...this.#known.keys()].filter((key) => this.#ready(key).length > 0 && this.#isBlocked(key))
      .length;
  }

  /** Returns a function that restores the present groups. */
  saved(): () => void {
    const time = this.#time;
    const undo = [entriesOf(this.#known), fieldsOf(this.#known.values())];
    return () => {
      for (const each of undo) each();
      this.#time = time;
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
    return this.#jobs().filter((job) => job.state === "ready" && job.policy.group === key);
  }

  #inWork(key: string): number {
    const isHeld = ({ state, stateBefore }: Job): boolean =>
      (state === "moving" ? stateBefore : state) === "reserved";
    return this.#jobs().filter((job) => isHeld(job) && job.policy.group === key).length;
  }

  #isBlocked(key: string): boolean {
    return key !== NO_GROUP && this.#inWork(key) >= this.#heldMax();
  }

  /**
   * Adds a job that was put, or that came from another tube, which leaves the group's weight alone.
   */
  joined({ policy: { group, weight } }: Job, isPut: boolean): void {
    if (!this.#known.has(group)) this.#known.set(group, { weight: 1, turn: this.#time });
    if (group !== NO_GROUP && isPut) this.#group(group).weight = weight;
  }

  /** Notes a ready job: its group's turn can't lie in the past. */
  becameReady({ policy: { group } }: Job): void {
    if (this.#ready(group).length === 1)
      this.#group(group).turn = Math.max(this.#group(group).turn, this.#time);
  }

  /** Notes a job that was given out. */
  taken({ policy: { group: own } }: Job): void {
    const gives = [...this.#known.keys()].filter((key) => {
      const before = this.#inWork(key) - (key === own ? 1 : 0);
      return this.#ready(key).length > 0 && (key === NO_GROUP || before < this.#heldMax());
    });
    const all = new Set([...gives, own]);
    const group = this.#group(own);
    group.turn = Math.max(group.turn, this.#time) + 1 / group.weight;
    this.#time += 1 / [...all].reduce((sum, key) => sum + this.#group(key).weight, 0);
    this.left();
  }

  /** Notes that a job is gone. */
  left(): void {
    const used = new Set(this.#jobs().map(({ policy }) => policy.group));
    for (const [key, { turn }] of this.#known)
      if (key !== NO_GROUP && !used.has(key) && turn <= this.#time) this.#known.delete(key);
  }

  /** Returns the next job to give. */
  next(beyondLimits: boolean): Job | undefined {
    const heads = [...this.#known.keys()]
      .filter((key) => beyondLimits || !this.#isBlocked(key))
      .flatMap((key) => this.#ready(key).sort((a, b) => a.pri - b.pri || a.id - b.id)[0] ?? []);
    const share = ({ policy: { group } }: Job): number => this.#inWork(group) / this.#group(group).weight;
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
