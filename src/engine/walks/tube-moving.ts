// Moves, in steps, the jobs of a tube that existed at the beginning and match a filter to another
// tube, on this shard or another. Dead jobs can also each return to the tube in which they died.

import { assert } from "../../base/assert.ts";
import { type JobTable, NO_SLOT } from "../jobs/job-table.ts";
import type { Tube } from "../tubes/tube.ts";
import { type JobWalk, turnBudget } from "./job-walk.ts";

/** The parts of an engine that a move needs. */
interface MovedJobs {
  readonly jobs: JobTable;
  findTube(name: string): Tube | undefined;
  /**
   * Moves a job. Returns whether it has moved, stays where it is, found its target full, or would
   * have to go to another shard.
   */
  move(slot: number, target: string, asReady: boolean, nowMs: number): MoveOutcome;
  /** Returns the tube in which a dead job died, or "". */
  originOf(slot: number): string;
}

/** Takes jobs that have to go to other shards. */
export interface FarMoves {
  /** Whether nothing more may be sent before some jobs have arrived. */
  readonly isFull: boolean;
  /** Number of jobs that were sent and whose fate is unknown. */
  readonly underWay: number;
  /** Number of jobs that have arrived. */
  readonly moved: number;
  /** Whether a target was full or out of memory; nothing more is moved then. */
  readonly refused: boolean;
  send(slot: number, target: string, asReady: boolean, nowMs: number): void;
}

export const MoveOutcome = { Moved: 0, Stays: 1, Full: 2, Elsewhere: 3 } as const;
export type MoveOutcome = (typeof MoveOutcome)[keyof typeof MoveOutcome];

/**
 * Skips jobs with a higher id than any at the beginning, so that it ends. Takes the smallest ids
 * first.
 */
export class TubeMoving {
  readonly tube: string;
  readonly #far: FarMoves;
  #movedHere = 0;
  readonly #engine: MovedJobs;
  readonly #walk: JobWalk;
  readonly #target: string;
  readonly #asReady: boolean;
  #jobsLeft: number;
  #full = false;

  /** `target` is "" for the tube in which each job died; `limit` is Infinity for all. */
  constructor(
    engine: MovedJobs,
    tube: string,
    walk: JobWalk,
    far: FarMoves,
    { target, asReady, limit }: { target: string; asReady: boolean; limit: number },
  ) {
    this.#engine = engine;
    this.tube = tube;
    this.#walk = walk;
    this.#far = far;
    this.#target = target;
    this.#asReady = asReady;
    this.#jobsLeft = limit;
  }

  /** Number of jobs that it has moved. */
  get moved(): number {
    return this.#movedHere + this.#far.moved;
  }

  /** An estimate of the jobs to move or examine. */
  get work(): number {
    if (this.#engine.findTube(this.tube) === undefined) return 0;
    return Math.min(this.#jobsLeft, this.#engine.jobs.live);
  }

  /** Moves up to `jobsMax` jobs; returns whether that was all. */
  step(jobsMax: number, nowMs: number): boolean {
    if (!this.#isDone) this.#moveSome(jobsMax, nowMs);
    assert(this.#far.underWay >= 0, "the jobs that were sent are counted");
    return this.#isDone && this.#far.underWay === 0;
  }

  /** Whether it can't continue before jobs have arrived at other shards. */
  get isWaiting(): boolean {
    return this.#far.underWay > 0 && (this.#far.isFull || this.#isDone);
  }

  get #isDone(): boolean {
    return (
      this.#full ||
      this.#far.refused ||
      this.#jobsLeft === 0 ||
      this.#walk.hasEnded ||
      this.#engine.findTube(this.tube) === undefined
    );
  }

  #moveSome(jobsMax: number, nowMs: number): void {
    const budget = turnBudget(jobsMax);
    for (let left = jobsMax; left > 0 && !this.#far.isFull && !this.#full && this.#jobsLeft > 0; left--) {
      const tube = this.#engine.findTube(this.tube);
      if (tube === undefined) return;
      const slot = this.#walk.next(tube, budget);
      if (slot === NO_SLOT) return;
      this.#move(slot, nowMs);
    }
  }

  #move(slot: number, nowMs: number): void {
    const target = this.#target === "" ? this.#engine.originOf(slot) : this.#target;
    if (target === "") return;
    const outcome = this.#engine.move(slot, target, this.#asReady, nowMs);
    assert(outcome !== MoveOutcome.Elsewhere || !this.#far.isFull, "a job leaves while the round has room");
    if (outcome === MoveOutcome.Full) this.#full = true;
    if (outcome === MoveOutcome.Elsewhere) this.#far.send(slot, target, this.#asReady, nowMs);
    else if (outcome !== MoveOutcome.Moved) return;
    else this.#movedHere++;
    this.#jobsLeft--;
    assert(this.#jobsLeft >= 0, "a move takes no more jobs than its limit");
  }
}
