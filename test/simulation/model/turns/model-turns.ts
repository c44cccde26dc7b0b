// Turns of the watched tubes of a model's session, from the sum of all that each tube was charged.
//
// By jobs, the model says whose turn it is. By time, it only checks that the tube which the engine
// has chosen gives its best job.

import assert from "node:assert/strict";

export type Order = "strict" | "weighted" | "weighted-time";

/** Fields of a tube and a job that matter here. */
interface TurnTube {
  readonly name: string;
  readonly shard: number;
}
interface TurnJob {
  readonly id: number;
  readonly pri: number;
  readonly tube: TurnTube;
}

const JOB_COST = 5040;
const NOT_BEGUN = -1;

interface Share {
  readonly weight: number;
  /** Its turn before it was charged `cost`. */
  readonly start: number;
  readonly cost: number;
}

const FRESH: Share = { weight: 1, start: NOT_BEGUN, cost: 0 };
const turnOf = ({ weight, start, cost }: Share): number => start + Math.floor(cost / weight);

export class ModelTurns {
  order: Order = "strict";
  /** By tube. */
  #shares = new Map<string, Share>();
  /** By shard: the earliest turn of the tubes that had jobs, as far as it knows. */
  #floors = new Map<number, number>();
  /** Place of each job that a shard has listed for a batch. */
  readonly listed: Map<number, number> = new Map();
  /** The turn of the tube of each job before it was given by a choice. */
  readonly placeOf: Map<number, number> = new Map();

  readonly #endedOn = new Set<number>();

  constructor(tubes: readonly string[]) {
    for (const tube of tubes) this.watch(tube);
  }

  /** Returns a function that restores everything that time may change. */
  saved(): () => void {
    const [shares, floors] = [new Map(this.#shares), new Map(this.#floors)];
    return () => {
      [this.#shares, this.#floors] = [shares, floors];
    };
  }

  /** The session ends on a shard; returns whether it is over. All shards know of an order. */
  endsOn(shard: number, shards: number): boolean {
    this.#endedOn.add(shard);
    return !this.decides || this.#endedOn.size === shards;
  }

  get decides(): boolean {
    return this.order !== "strict";
  }

  watch(tube: string): void {
    if (!this.#shares.has(tube)) this.#shares.set(tube, FRESH);
  }

  ignore(tube: string): void {
    this.#shares.delete(tube);
  }

  weigh(tube: string, weight: number): void {
    const share = this.#shares.get(tube);
    assert.ok(share !== undefined, `${tube} is watched`);
    this.#shares.set(tube, { weight, start: turnOf(share), cost: 0 });
  }

  /** An order begins on a shard, which has these of the watched tubes. */
  begin(order: Order, shard: number, tubes: readonly TurnTube[]): void {
    this.order = order;
    for (const { name } of tubes)
      this.#shares.set(name, { ...FRESH, weight: this.#shares.get(name)!.weight });
    this.#floors.set(shard, 0);
    this.placeOf.clear();
  }

  floorOf(shard: number): number {
    return this.#floors.get(shard) ?? 0;
  }

  raiseFloor(shard: number, floor: number): void {
    this.#floors.set(shard, Math.max(floor, this.floorOf(shard)));
  }

  /** Returns the turn of a tube that has a job now. */
  turnNow(tube: TurnTube): number {
    const share = this.#shares.get(tube.name);
    assert.ok(share !== undefined, `${tube.name} is watched`);
    const turn = turnOf(share);
    const floor = this.floorOf(tube.shard);
    return turn >= floor ? turn : floor + Math.floor(JOB_COST / 2 / share.weight);
  }

  /** Lets the tubes take part in a choice, and returns the first of their best jobs. */
  choose<Job extends TurnJob>(jobs: readonly Job[]): Job | undefined {
    let best: Job | undefined;
    for (const job of jobs) {
      this.#bringUp(job.tube);
      if (best === undefined || this.#goesBefore(job, best)) best = job;
    }
    if (best !== undefined) this.placeOf.set(best.id, this.turnNow(best.tube));
    return best;
  }

  #goesBefore(a: TurnJob, b: TurnJob): boolean {
    const [turn, other] = [this.turnNow(a.tube), this.turnNow(b.tube)];
    return turn < other || (turn === other && (a.pri < b.pri || (a.pri === b.pri && a.id < b.id)));
  }

  #bringUp(tube: TurnTube): void {
    const { weight, start, cost } = this.#shares.get(tube.name)!;
    const now = this.turnNow(tube);
    if (now !== turnOf({ weight, start, cost }))
      this.#shares.set(tube.name, { weight, start: now, cost: cost % weight });
  }

  /** Notes that a wait ends with the job. */
  waited(job: TurnJob): void {
    this.placeOf.delete(job.id);
    this.endChoice(job);
  }

  /** Notes that a shard has chosen the job alone. */
  endChoice(job: TurnJob): void {
    if (this.order !== "weighted") return;
    this.#bringUp(job.tube);
    this.raiseFloor(job.tube.shard, this.turnNow(job.tube));
  }

  /** Charges a job that is given. */
  took({ tube }: TurnJob): void {
    if (this.order !== "weighted" || !this.#shares.has(tube.name)) return;
    this.#bringUp(tube);
    const share = this.#shares.get(tube.name)!;
    this.#shares.set(tube.name, { ...share, cost: share.cost + JOB_COST });
  }

  /**
   * Returns the jobs of these lines, one for each tube, in the order of a batch, each with its
   * place.
   */
  merged<Job extends TurnJob>(lines: readonly (readonly Job[])[]): { job: Job; place: number }[] {
    const restore = this.saved();
    const left = lines.map((line) => [...line]);
    const merged: { job: Job; place: number }[] = [];
    for (;;) {
      const job = this.choose(left.flatMap(([first]) => first ?? []));
      if (job === undefined) break;
      merged.push({ job, place: this.turnNow(job.tube) });
      this.took(job);
      left.find(([first]) => first === job)!.shift();
    }
    restore();
    for (const [first] of lines) if (first !== undefined) this.#bringUp(first.tube);
    return merged;
  }

  /** Checks that a shard which gives a job has been told the latest floor that any shard knows. */
  checkFloor(shard: number): void {
    if (this.order !== "weighted") return;
    const latest = Math.max(...this.#floors.values());
    assert.equal(this.floorOf(shard), latest, `shard ${shard} knows the floor of all shards`);
  }
}
