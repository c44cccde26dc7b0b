// A tube: its jobs by state, its statistics, its pause, and the sessions that wait for its jobs.

import { type JobTable, NO_SLOT } from "./job-table.ts";
import type { Watch } from "./session.ts";
import { DeadlineHeap, ReadyHeap } from "./slot-heap.ts";
import { Timer } from "./timer-heap.ts";
import type { WideWaiters } from "./wide-waiters.ts";

export class Tube {
  readonly name: string;
  /** Creation order over all shards; list-tubes sorts by it. */
  readonly sequence: number;
  /** Index in the engine's list of tubes, kept in each job's `tube` column. */
  readonly index: number;
  readonly ready: ReadyHeap;
  readonly delayed: DeadlineHeap;
  /** Buried jobs, oldest burial first, linked through the job table. */
  buriedFirst: number = NO_SLOT;
  buriedLast: number = NO_SLOT;
  /** Jobs by JobState; index 0 is unused. */
  readonly jobs: Int32Array = new Int32Array(5);
  urgentJobs = 0;
  totalJobs = 0;
  /** Successful deletes of this tube's jobs. */
  deletes = 0;
  pauses = 0;
  /** Length of the present pause, or 0. */
  pauseSeconds = 0;
  readonly pauseTimer: Timer<Tube> = new Timer<Tube>(this);
  /** Due when the first delayed job is. */
  readonly delayTimer: Timer<Tube> = new Timer<Tube>(this);
  /** Connections that use it, and that watch it. */
  using = 0;
  watching = 0;
  /** Waiting sessions with few watched tubes, longest wait first. */
  waiterFirst: Watch | undefined;
  waiterLast: Watch | undefined;
  /** Sessions with many watched tubes, waiting or not; made at the first. */
  wideWaiters: WideWaiters | undefined;
  /** Position in the engine's list of tubes with ready jobs, or -1. */
  readyAt = -1;

  constructor(name: string, sequence: number, index: number, jobs: JobTable) {
    this.name = name;
    this.sequence = sequence;
    this.index = index;
    this.ready = new ReadyHeap(jobs);
    this.delayed = new DeadlineHeap(jobs);
  }

  get paused(): boolean {
    return this.pauseTimer.position >= 0;
  }

  /** Whether somebody uses or watches the tube or a job is in it; `default` is kept by the engine besides. */
  get referenced(): boolean {
    return (
      this.using > 0 || this.watching > 0 || this.jobs[1]! + this.jobs[2]! + this.jobs[3]! + this.jobs[4]! > 0
    );
  }
}
