// The state of one shard as plain fields, which all parts of its engine share: jobs, tubes,
// queues, sessions, timers, counters, and the receivers of effects.

import { assert } from "../../base/assert.ts";
import { JobCounter } from "../../schema/job.ts";
import { BodyArena } from "../jobs/body-arena.ts";
import { JobIndex } from "../jobs/job-index.ts";
import { JobState, JobTable, NO_SLOT, rowOf } from "../jobs/job-table.ts";
import { EarliestTime, TimerHeap } from "../queues/heaps.ts";
import type { Tube } from "../tubes/tube.ts";
import { TubeSettings } from "../tubes/tube-settings.ts";
import { TubeTable } from "../tubes/tube-table.ts";
import { BatchTable } from "./batch-table.ts";
import type { ClientEffects, Meter, RecordSink } from "./effects.ts";
import { JobQueues } from "./job-queues.ts";
import { ScheduledJobs } from "./scheduled-jobs.ts";
import { type Session, SessionTimers } from "./session.ts";
import { Waiters } from "./waiters.ts";

export interface EngineOptions {
  effects: ClientEffects;
  records?: RecordSink;
  /** Measures how long jobs wait and are held; optional. */
  meter?: Meter;
  arena?: BodyArena;
  /** Whether this shard owns `default`, which always exists. */
  ownsDefaultTube: boolean;
  /** Maximum number of due events to run between two calls of `beginTurn`; unlimited by default. */
  turnDueMax?: number;
  /** Returns whether this shard owns a tube; by default it owns all. */
  ownsTube?: (name: string) => boolean;
  /** A session with more tubes to choose from keeps them in a ReadyOrder. */
  orderedTubesMin?: number;
  /** Random seed for the hash of unique keys, so that clients can't construct collisions. */
  keySeed?: readonly [number, number];
  /** Names the workers of failed attempts; without it they have no names. */
  workerName?: WorkerName;
}

/**
 * Writes the name of the worker that holds this job in this session to `into[at]`, at most
 * WORKER_BYTES_MAX bytes; returns their number.
 */
export type WorkerName = (session: number, job: number, into: Uint8Array, at: number) => number;

/** Up to this many tubes, checking each one costs less than keeping an order. */
const ORDERED_TUBES_MIN = 64;

export class ShardState {
  readonly jobs: JobTable = new JobTable();
  readonly bodies: BodyArena;
  readonly index: JobIndex = new JobIndex();
  readonly queues: JobQueues;
  readonly settings: TubeSettings = new TubeSettings();
  /** Tubes by name, in the order of their creation. */
  readonly tubes: TubeTable;
  readonly defaultTube: Tube | undefined;
  readonly waiters: Waiters;
  /** Sessions by index. */
  readonly sessions: (Session | undefined)[] = [];
  readonly sessionTimers: SessionTimers = new SessionTimers();
  /** The earliest rare deadline: of an expiry, a unique key, a pause or a rate limiter. */
  readonly rareDeadlines: EarliestTime = new EarliestTime();
  readonly batches: BatchTable = new BatchTable(this.jobs);
  readonly scheduled: ScheduledJobs = new ScheduledJobs();
  readonly pauseTimers: TimerHeap<Tube> = new TimerHeap<Tube>(this.rareDeadlines);
  /** Due when a rate limiter has a token again. */
  readonly rateTimers: TimerHeap<Tube> = new TimerHeap<Tube>(this.rareDeadlines);
  /** When more jobs were due to expire than a turn allows, ms; 0 if none are left over. */
  expiryBehindAtMs = 0;
  readonly turnDueMax: number;
  /** Number of due events that may still run in this turn. */
  dueLeft: number;
  readonly orderedTubesMin: number;
  readonly effects: ClientEffects;
  /** Undefined without a log. */
  readonly records: RecordSink | undefined;
  readonly meter: Meter | undefined;
  readonly ownsTube: (name: string) => boolean;
  /** Number of tubes, waiters and groups examined since the caller set it to 0; one takes 50 ns. */
  looks = 0;
  totalJobs = 0;
  jobReserves = 0;
  jobDeletes = 0;
  jobReleases = 0;
  jobBuries = 0;
  jobKicks = 0;
  jobTouches = 0;
  jobTimeouts = 0;
  jobDisconnects = 0;
  jobDeaths = 0;
  jobExpiries = 0;
  jobCancels = 0;
  /** Puts whose key another job had, and puts into full tubes. */
  putDuplicates = 0;
  putRefusals = 0;
  rateWaits = 0;
  groupRateWaits = 0;

  constructor(options: EngineOptions) {
    const { effects } = options;
    assert((options.turnDueMax ?? 1) > 0, "a turn may run at least one due event");
    this.effects = effects;
    this.records = options.records;
    this.meter = options.meter;
    this.bodies = options.arena ?? new BodyArena();
    this.tubes = new TubeTable(
      this.jobs,
      () => effects.nextTubeSequence(),
      this.settings,
      this.rareDeadlines,
      (name) => this.meter?.of(name),
    );
    this.queues = new JobQueues(this.jobs, this.batches, this.tubes, this.rareDeadlines);
    this.ownsTube = options.ownsTube ?? (() => true);
    this.waiters = new Waiters(effects);
    this.turnDueMax = options.turnDueMax ?? Number.MAX_SAFE_INTEGER;
    this.dueLeft = this.turnDueMax;
    this.orderedTubesMin = options.orderedTubesMin ?? ORDERED_TUBES_MIN;
    if (options.ownsDefaultTube) this.defaultTube = this.tubes.open("default");
  }

  /** Returns the slot of a job, or NO_SLOT. */
  find(id: number): number {
    return this.index.get(id);
  }

  tubeOf(slot: number): Tube {
    return this.tubes.at(this.jobs.pageOf(slot).tube[rowOf(slot)]!);
  }

  /** Counts a burial of a job, or takes it back (-1). */
  countBury(slot: number, tube: Tube, change: 1 | -1 = 1): void {
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    tube.buries += change;
    this.jobBuries += change;
    page.addTo(row, JobCounter.buries, change);
    assert(tube.buries >= 0 && this.jobBuries >= 0, "a burial that is taken back was counted");
  }

  /** Returns the slot of a job that the session holds, or NO_SLOT. */
  heldBy(session: Session, id: number): number {
    const slot = this.index.get(id);
    if (slot === NO_SLOT) return NO_SLOT;
    const page = this.jobs.pageOf(slot);
    const row = rowOf(slot);
    return page.state[row] === JobState.Reserved && page.holder[row] === session.index ? slot : NO_SLOT;
  }
}
