// Moves jobs of a tube to another one of the shard, some in each step, until none is left that was there when it began and
// fits; dead ones also each to the tube where it died.

import { type JobTable, NO_SLOT } from "./job-table.ts";
import { type JobWalk, turnBudget } from "./job-walk.ts";
import type { Tube } from "./tube.ts";

/** What of an engine a moving needs. */
export interface MovedJobs {
  readonly jobs: JobTable;
  findTube(name: string): Tube | undefined;
  /** Moves a job; tells whether it has moved, stays where it is, or finds its target full. */
  move(slot: number, target: string, asReady: boolean, nowMs: number): MoveOutcome;
  /** Where a dead job of this shard may live again, or "". */
  originOf(slot: number): string;
}

export const MoveOutcome = { Moved: 0, Stays: 1, Full: 2 } as const;
export type MoveOutcome = (typeof MoveOutcome)[keyof typeof MoveOutcome];

/** Jobs with a higher id than any was when it began are left alone, so that it ends. Smallest ids come first. */
export class TubeMoving {
  readonly tube: string;
  /** Jobs that it has moved. */
  moved = 0;
  readonly #engine: MovedJobs;
  readonly #walk: JobWalk;
  readonly #target: string;
  readonly #asReady: boolean;
  #jobsLeft: number;
  #full = false;

  /** `target` is "" for the tube that each job died in; `limit` is Infinity for all. */
  constructor(
    engine: MovedJobs,
    tube: string,
    walk: JobWalk,
    { target, asReady, limit }: { target: string; asReady: boolean; limit: number },
  ) {
    this.#engine = engine;
    this.tube = tube;
    this.#walk = walk;
    this.#target = target;
    this.#asReady = asReady;
    this.#jobsLeft = limit;
  }

  /** Jobs that it could move now, or look at before: an estimate. */
  get work(): number {
    if (this.#engine.findTube(this.tube) === undefined) return 0;
    return Math.min(this.#jobsLeft, this.#engine.jobs.live);
  }

  /** Moves up to `jobsMax` jobs; returns whether that was all. */
  step(jobsMax: number, nowMs: number): boolean {
    const budget = turnBudget(jobsMax);
    for (let left = jobsMax; left > 0 && this.#jobsLeft > 0; left--) {
      const tube = this.#engine.findTube(this.tube);
      if (tube === undefined) return true;
      const slot = this.#walk.next(tube, budget);
      if (slot === NO_SLOT) break;
      this.#move(slot, nowMs);
      if (this.#full) return true;
    }
    return this.#jobsLeft === 0 || this.#walk.hasEnded;
  }

  #move(slot: number, nowMs: number): void {
    const target = this.#target === "" ? this.#engine.originOf(slot) : this.#target;
    if (target === "") return;
    const outcome = this.#engine.move(slot, target, this.#asReady, nowMs);
    if (outcome === MoveOutcome.Full) this.#full = true;
    if (outcome !== MoveOutcome.Moved) return;
    this.moved++;
    this.#jobsLeft--;
  }
}
