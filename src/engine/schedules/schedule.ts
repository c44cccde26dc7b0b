// A schedule: what it puts, when, and what became of its ticks. Times are wall-clock ms.

import { assert } from "../../base/assert.ts";
import { EMPTY_BODY } from "../jobs/body-arena.ts";
import { Timer } from "../queues/timer-heap.ts";

/** The times of a schedule's ticks. */
export interface Timing {
  /** A cron expression, or "" for ticks at regular intervals. */
  readonly cron: string;
  /** The time zone of the expression. */
  readonly zone: string;
  /** The interval, or 0 with a cron expression. */
  readonly everyMs: number;
}

/** The jobs that a schedule puts, and its rules. */
export interface ScheduleFacts {
  readonly name: string;
  readonly tube: string;
  readonly timing: Timing;
  /** A Missed. */
  readonly missed: number;
  readonly pri: number;
  readonly delaySeconds: number;
  readonly delayMillis: number;
  readonly ttrSeconds: number;
  /** Time to live of the jobs, in ms; 0 for no limit. */
  readonly ttlMs: number;
  /** Attributes of the jobs, in the form of the log: group, weight, meta. */
  readonly attributes: Uint8Array;
}

/**
 * The progress of a schedule. It survives when the schedule is set again, even on another shard.
 */
export interface ScheduleProgress {
  /** A number taken when it was set; greater than those of all earlier sets. */
  version: number;
  /** With an interval, tick n is n intervals later. */
  anchorMs: number;
  /** The next tick; Infinity if there is none. */
  nextMs: number;
  /**
   * The next tick that the schedule had before the wall clock went back, and that it gets again if
   * the clock goes ahead again; 0 if the clock has not gone back.
   */
  heldMs: number;
  paused: boolean;
  /** The last tick that put a job, or 0. */
  lastMs: number;
  /** Jobs put since the last tick that was not late, while further ticks were due. */
  lateJobs: number;
  fired: number;
  /** Jobs put by run-schedule. */
  runs: number;
  /** Ticks that put no job because others were due with them, or because they were too late. */
  missedTicks: number;
  /** Ticks whose key another job had. */
  duplicates: number;
  /** Attempts to put a job that were refused. */
  refusals: number;
}

/** Why an attempt to put a job was refused. */
export const Refusal = { None: 0, TubeFull: 1, OutOfMemory: 2, LogFull: 3, Draining: 4 } as const;
export type Refusal = (typeof Refusal)[keyof typeof Refusal];

export class Schedule implements ScheduleProgress {
  readonly name: string;
  /** Its id in the log, which it keeps for life. */
  readonly id: number;
  facts: ScheduleFacts;
  body: number = EMPTY_BODY;
  bodyBytes = 0;
  version = 0;
  anchorMs = 0;
  nextMs: number = Number.POSITIVE_INFINITY;
  heldMs = 0;
  paused = false;
  lastMs = 0;
  lateJobs = 0;
  fired = 0;
  runs = 0;
  missedTicks = 0;
  duplicates = 0;
  refusals = 0;
  lastRefusal: Refusal = Refusal.None;
  /** Of `missedTicks`, those since the last job or pause, and since the start of the server. */
  missedInARow = 0;
  /** Ticks that were passed over since the last one that was not. */
  passedTicks = 0;
  /**
   * The shards that are about to set a schedule of this name, and the numbers of their claims.
   * Meanwhile, this one puts no job.
   */
  readonly freezers: Map<number, number> = new Map();
  /** When it next needs attention, on the wall clock. */
  readonly timer: Timer<Schedule> = new Timer<Schedule>(this);

  constructor(id: number, facts: ScheduleFacts) {
    this.id = id;
    this.name = facts.name;
    this.facts = facts;
  }

  /** Takes over the progress of another schedule of this name, perhaps on another shard. */
  takeOver(progress: Readonly<ScheduleProgress>): void {
    this.version = progress.version;
    this.anchorMs = progress.anchorMs;
    this.nextMs = progress.nextMs;
    this.heldMs = progress.heldMs;
    this.paused = progress.paused;
    this.lastMs = progress.lastMs;
    this.lateJobs = progress.lateJobs;
    this.fired = progress.fired;
    this.runs = progress.runs;
    this.missedTicks = progress.missedTicks;
    this.duplicates = progress.duplicates;
    this.refusals = progress.refusals;
  }

  get isFrozen(): boolean {
    return this.freezers.size > 0;
  }
}

/** Returns whether two schedules have the same ticks. */
export function isSameTiming(a: Timing, b: Timing): boolean {
  return a.cron === b.cron && a.zone === b.zone && a.everyMs === b.everyMs;
}

/** Returns the tick's unique key, Latin-1. */
export function tickKey(name: string, tickMs: number): string {
  assert(tickMs < Number.POSITIVE_INFINITY, "a tick that puts a job has a time");
  return `${name}@${new Date(tickMs).toISOString()}`;
}
