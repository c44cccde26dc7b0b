// Deletes, in steps, the jobs of a tube that existed at the beginning and match a filter.

import { assert } from "../../base/assert.ts";
import { ENDS, type End } from "../jobs/ends.ts";
import { JobState, type JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import type { Tube } from "../tubes/tube.ts";
import { type JobWalk, stateBit, turnBudget } from "./job-walk.ts";

/** The parts of an engine that a clearing needs. */
interface ClearedJobs {
  readonly jobs: JobTable;
  findTube(name: string): Tube | undefined;
  /** Deletes a job in any state. */
  discard(slot: number, end: End, nowMs: number): void;
}

/** States whose queues belong to the tube; reserved jobs belong to their holders. */
const QUEUED: readonly JobState[] = [JobState.Ready, JobState.Delayed, JobState.Buried];
const EVERY_STATE: readonly JobState[] = [...QUEUED, JobState.Reserved];

/**
 * Skips jobs with a higher id than any at the beginning, so it ends however many jobs are put
 * meanwhile. Without a filter, it takes jobs from the ends of the tube's queues as long as these
 * are old enough. There, a removal moves no other job, and the jobs of other tubes need not be
 * examined. The walk finds the rest, smallest id first.
 */
export class TubeClearing {
  readonly tube: string;
  readonly walk: JobWalk;
  /** Number of jobs that it may still delete. */
  jobsLeft: number;
  /** Number of jobs that it has deleted. */
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

  /** An estimate of the jobs to delete or examine, including searches of equal cost. */
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
    assert(this.cleared - before <= jobsMax, "a step deletes no more jobs than it may");
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
    this.#engine.discard(slot, ENDS.Cleared, nowMs);
    this.cleared++;
    this.jobsLeft--;
    assert(this.jobsLeft >= 0, "a clearing deletes no more jobs than its limit");
  }

  #takeFromEnds(jobsMax: number, nowMs: number): void {
    assert(this.jobsLeft === Infinity, "a whole tube is cleared without a limit");
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

  /**
   * Returns the job at the end of a queue, or NO_SLOT if there is none that may be deleted. The
   * tube disappears with its last job.
   */
  #endOf(state: JobState): number {
    const tube = this.#engine.findTube(this.tube);
    if (tube === undefined) return NO_SLOT;
    const slot = endOf(tube, state);
    if (slot === NO_SLOT) return NO_SLOT;
    const { jobs } = this.#engine;
    assert(jobs.pageOf(slot).state[rowOf(slot)] === state, "the job at the end of a queue is in its state");
    return jobs.pageOf(slot).id[rowOf(slot)]! <= this.walk.lastId ? slot : NO_SLOT;
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

  /** Returns the number of the tube's jobs in the selected states. */
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
