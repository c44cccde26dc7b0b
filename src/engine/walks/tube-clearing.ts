// Deletes jobs of a tube, some in each step, until none is left that was there when it began and fits.

import { JobState, type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import type { Tube } from "../tubes/tube.ts";
import { type JobWalk, stateBit, turnBudget } from "./job-walk.ts";

/** What of an engine a clearing needs. */
export interface ClearedJobs {
  readonly jobs: JobTable;
  findTube(name: string): Tube | undefined;
  /** Deletes a job in whatever state. */
  discard(slot: number, nowMs: number): void;
}

/** The states whose queues belong to the tube; reserved jobs are their holders'. */
const QUEUED: readonly JobState[] = [JobState.Ready, JobState.Delayed, JobState.Buried];
const EVERY_STATE: readonly JobState[] = [...QUEUED, JobState.Reserved];

/**
 * Jobs with a higher id than any was when it began are left alone, so that it ends however many are put meanwhile. Whole states
 * are taken from the ends of their queues, as long as these are old: there a job leaves without moving another, and the jobs
 * of other tubes need not be looked at. Whatever is left the walk finds, smallest id first.
 */
export class TubeClearing {
  readonly tube: string;
  readonly walk: JobWalk;
  /** Jobs that it may still delete. */
  jobsLeft: number;
  /** Jobs that it has deleted. */
  cleared = 0;
  readonly #engine: ClearedJobs;
  readonly #isWhole: boolean;

  /** `limit` is Infinity for all. */
  constructor(engine: ClearedJobs, tube: string, walk: JobWalk, limit: number) {
    this.#engine = engine;
    this.tube = tube;
    this.walk = walk;
    this.jobsLeft = limit;
    const { createdByMs, contains, group } = walk.filter;
    const isAny = createdByMs === Infinity && contains === undefined && group === undefined;
    this.#isWhole = isAny && limit === Infinity;
  }

  /** About how many jobs it has to delete or look at, or bodies to search that cost as much. */
  get work(): number {
    const tube = this.#engine.findTube(this.tube);
    if (tube === undefined) return 0;
    return this.#isWhole ? this.#jobsIn(tube) : this.walk.work(tube);
  }

  /** Deletes up to `jobsMax` jobs; returns whether that was all. */
  step(jobsMax: number, nowMs: number): boolean {
    const before = this.cleared;
    if (this.#isWhole) this.#takeFromEnds(jobsMax, nowMs);
    const taken = this.cleared - before;
    if (taken < jobsMax) this.#walkOn(jobsMax - taken, nowMs);
    return this.#isDone;
  }

  get #isDone(): boolean {
    const tube = this.#engine.findTube(this.tube);
    return (
      tube === undefined ||
      this.jobsLeft === 0 ||
      this.walk.hasEnded ||
      (this.#isWhole && this.#jobsIn(tube) === 0)
    );
  }

  #discard(slot: number, nowMs: number): void {
    this.#engine.discard(slot, nowMs);
    this.cleared++;
    this.jobsLeft--;
  }

  #takeFromEnds(jobsMax: number, nowMs: number): void {
    let left = jobsMax;
    for (const state of QUEUED) {
      if ((this.walk.filter.states & stateBit(state)) === 0) continue;
      for (; left > 0; left--) {
        const slot = this.#endOf(state);
        if (slot === NO_SLOT) break;
        this.#discard(slot, nowMs);
      }
    }
  }

  /** The job at the end of a queue, or NO_SLOT if it is none that may go. With its last job the tube goes, too. */
  #endOf(state: JobState): number {
    const tube = this.#engine.findTube(this.tube);
    if (tube === undefined) return NO_SLOT;
    const slot = endOf(tube, state);
    if (slot === NO_SLOT) return NO_SLOT;
    return this.#engine.jobs.pageOf(slot).id[rowOf(slot)]! <= this.walk.lastId ? slot : NO_SLOT;
  }

  #walkOn(jobsMax: number, nowMs: number): void {
    const budget = turnBudget(jobsMax);
    for (let left = jobsMax; left > 0 && this.jobsLeft > 0; left--) {
      const tube = this.#engine.findTube(this.tube);
      if (tube === undefined || (this.#isWhole && this.#jobsIn(tube) === 0)) return;
      const slot = this.walk.next(tube, budget);
      if (slot === NO_SLOT) return;
      this.#discard(slot, nowMs);
    }
  }

  /** Jobs of the tube in the states that are meant. */
  #jobsIn(tube: Tube): number {
    let jobs = 0;
    for (const state of EVERY_STATE)
      if ((this.walk.filter.states & stateBit(state)) !== 0) jobs += tube.jobsIn(state);
    return jobs;
  }
}

function endOf(tube: Tube, state: JobState): number {
  if (state === JobState.Buried) return tube.buriedJobs === 0 ? NO_SLOT : tube.buried.first;
  if (tube.jobsIn(state) === 0) return NO_SLOT;
  return state === JobState.Ready ? tube.ready.tail : tube.delayed.at(tube.delayed.size - 1);
}
