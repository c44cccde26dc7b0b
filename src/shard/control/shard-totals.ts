// The totals of a shard, in one message.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState } from "../../engine/jobs/job-table.ts";
import type { Schedule } from "../../engine/schedules.ts";
import type { BatchRow } from "../../engine/state/batch-table.ts";
import type { Meter } from "../../engine/state/effects.ts";
import type { TubeMeter } from "../../engine/tubes/tube.ts";
import {
  type Answers,
  type BatchFigures,
  type BatchSign,
  BODY_BOUNDS_BYTES,
  type FlowFigures,
  type FlowSigns,
  MEASURED_TUBES_MAX,
  type Quantiles,
  type Questions,
  type ScheduleSign,
  type ShardTotals,
  type TubeTimes,
  WAIT_BOUNDS_SECONDS,
} from "../../message/control.ts";
import { createHistogram } from "../../message/histogram.ts";
import { BucketCounts } from "../../message/log-figures.ts";
import { BatchOutcome, BatchState } from "../../schema/batch.ts";
import { eachOf } from "../../schema/names.ts";
import { COUNTERS, TUBE_COUNTERS } from "../../schema/tube.ts";
import { REFUSAL_WORDS } from "../schedules/schedule-listing.ts";
import type { ControlAnswerer, ControlShard, ControlWork } from "./control-work.ts";

// Measures how long jobs wait and are held on a shard, and the sizes of their bodies. Keeps HDR
// histograms for quantiles, and the fixed buckets of the metrics.

/** Longer times count as this value. */
const LONGEST_MS = 100 * 24 * 3600 * 1000;

const boundedMs = (ms: number): number => Math.min(Math.max(ms, 0), LONGEST_MS);

class Times {
  readonly counted = new BucketCounts(WAIT_BOUNDS_SECONDS);
  /** In microseconds. */
  readonly #histogram = createHistogram(LONGEST_MS * 1000);

  add(ms: number): void {
    const bounded = boundedMs(ms);
    this.counted.add(bounded / 1000);
    this.#histogram.recordValue(Math.round(bounded * 1000));
  }

  get quantiles(): Quantiles {
    const histogram = this.#histogram;
    const ms = (percentile: number): number => histogram.getValueAtPercentile(percentile) / 1000;
    const count = histogram.totalCount;
    return { count, p50: ms(50), p90: ms(90), p99: ms(99), p999: ms(99.9), max: histogram.maxValue / 1000 };
  }
}

/** Wait and hold of one tube. */
class MeasuredTube implements TubeMeter, TubeTimes {
  readonly wait = new BucketCounts(WAIT_BOUNDS_SECONDS);
  readonly hold = new BucketCounts(WAIT_BOUNDS_SECONDS);

  waited(ms: number): void {
    this.wait.add(boundedMs(ms) / 1000);
  }

  held(ms: number): void {
    this.hold.add(boundedMs(ms) / 1000);
  }
}

export class LatencyMeter implements Meter {
  readonly wait: Times = new Times();
  readonly hold: Times = new Times();
  readonly body: BucketCounts = new BucketCounts(BODY_BOUNDS_BYTES);
  /** By name, so that the counts of a recreated tube continue. */
  readonly #tubes = new Map<string, MeasuredTube>();

  waited(ms: number): void {
    this.wait.add(ms);
  }

  held(ms: number): void {
    this.hold.add(ms);
  }

  stored(bodyBytes: number): void {
    this.body.add(bodyBytes);
  }

  of(name: string): TubeMeter | undefined {
    return this.#tubes.size === 0 ? undefined : this.#tubes.get(name);
  }

  /** Measures these tubes, whether they exist or not, and no others. Returns their times. */
  measure(
    names: readonly string[],
    findTube: (name: string) => { meter: TubeMeter | undefined } | undefined,
  ): readonly (readonly [name: string, times: TubeTimes])[] {
    assert(names.length <= MEASURED_TUBES_MAX, "few tubes are measured");
    const wanted = new Set(names);
    for (const name of this.#tubes.keys()) {
      if (wanted.has(name)) continue;
      this.#tubes.delete(name);
      const tube = findTube(name);
      if (tube !== undefined) tube.meter = undefined;
    }
    assert(this.#tubes.size <= wanted.size, "only tubes that are asked for are measured");
    return Array.from(wanted, (name) => {
      const times = this.#tubes.getOrInsertComputed(name, () => new MeasuredTube());
      const tube = findTube(name);
      if (tube !== undefined) tube.meter = times;
      return [name, { wait: times.wait.copy(), hold: times.hold.copy() }];
    });
  }
}

// Times of individual tubes for the HTTP thread: selects the tubes to measure, and reports the
// counts so far, some tubes in each turn.

/** Tubes in a part: 10 KiB with the longest names and the highest counts. */
const PART_TUBES = 20;

export class MeasureTubes implements ControlWork {
  #left: Answers["tube-times"];

  constructor({ engine }: ControlShard, meter: LatencyMeter, { tubes }: Questions["tube-times"]) {
    this.#left = meter.measure(tubes, (name) => engine.findTube(name));
  }

  step(answerer: ControlAnswerer): boolean {
    const part = this.#left.slice(0, PART_TUBES);
    this.#left = this.#left.slice(PART_TUBES);
    answerer.value(part, this.#left.length === 0);
    return this.#left.length === 0;
  }
}

/** The parts and facts of a shard outside its engine. */
interface Known {
  readonly leaseSession: number;
  readonly waiting: number;
  /** The time of the wall clock. */
  readonly wallMs: number;
}

export function shardTotals(
  { engine, nowMs }: ControlShard,
  { wait, hold, body }: LatencyMeter,
  { leaseSession, waiting, wallMs }: Known,
): ShardTotals {
  const { jobCounts } = engine;
  const { table } = engine.schedules;
  assert(engine.urgentJobs <= jobCounts[JobState.Ready]!, "urgent jobs are among the ready ones of a shard");
  return {
    nowMs,
    jobs: {
      ready: jobCounts[JobState.Ready]!,
      urgent: engine.urgentJobs,
      reserved: jobCounts[JobState.Reserved]! + jobCounts[JobState.Moving]!,
      delayed: jobCounts[JobState.Delayed]!,
      buried: jobCounts[JobState.Buried]!,
    },
    ...eachOf(TUBE_COUNTERS, (name) => engine[COUNTERS[name].shard]),
    touches: engine.jobTouches,
    tubes: engine.tubes.size,
    waiting,
    batches: batchFigures(engine, nowMs),
    flows: flowFigures(engine),
    scheduleLateMs: table.lateMs(wallMs),
    scheduleNextMs: Math.max(0, table.timers.nextAtMs - wallMs),
    leases: engine.session(leaseSession).held.size,
    finished: engine.policies.finished.size,
    jobsMemoryBytes: engine.jobs.reservedBytes,
    bodiesMemoryBytes: engine.bodies.reservedBytes,
    wait: wait.counted,
    hold: hold.counted,
    body,
  };
}

function batchFigures({ batches: { counts } }: Engine, nowMs: number): BatchFigures {
  const { inState, openSinceMs, unfinishedSinceMs } = counts;
  return {
    open: inState[BatchState.Open]!,
    committed: inState[BatchState.Committed]!,
    cancelled: inState[BatchState.Cancelled]!,
    complete: inState[BatchState.Complete]!,
    openMs: Math.max(0, nowMs - openSinceMs),
    unfinishedMs: Math.max(0, nowMs - unfinishedSinceMs),
  };
}

function flowFigures({ batches: { counts }, schedules }: Engine): FlowFigures {
  const { table } = schedules;
  assert(table.paused.size <= table.size, "paused schedules are among the schedules");
  assert(counts.openMembers >= 0 && counts.waiting >= 0, "members and jobs that wait are counted");
  return {
    batchesOpened: counts.opened,
    batchesSuccess: counts.completed[BatchOutcome.Success]!,
    batchesFailure: counts.completed[BatchOutcome.Failure]!,
    batchesCancelled: counts.completed[BatchOutcome.Cancelled]!,
    members: counts.openMembers,
    membersDone: counts.done,
    membersFailed: counts.failed,
    callbacksWaiting: counts.waiting,
    callbacksReleased: counts.released,
    callbacksBuried: counts.buried,
    schedules: table.size,
    schedulesPaused: table.paused.size,
    schedulesRefused: table.refused.size,
    ticksPut: schedules.counts.fired,
    ticksMissed: schedules.counts.missed,
    ticksDuplicate: schedules.counts.duplicates,
    ticksSkipped: schedules.counts.skipped,
    scheduleRefusals: schedules.counts.refusals,
    scheduleRuns: schedules.counts.runs,
  };
}

// Batches and schedules of a shard that need an operator's attention: members that failed or are
// buried, schedules that are paused, refused, or have missed ticks.

/** Number of batches examined: the oldest incomplete ones, which are the same on all shards. */
const BATCHES_MAX = 2000;
/** Batches in a slice: a name has up to 200 bytes. */
const SLICE_BATCHES = 100;
const SCHEDULES_NAMED = 3;

export class ListFlowSigns implements ControlWork {
  readonly #shard: ControlShard;
  readonly #wallMs: number;
  readonly #batches: Iterator<BatchRow>;
  #left = BATCHES_MAX;

  constructor(shard: ControlShard, wallMs: number) {
    this.#shard = shard;
    this.#wallMs = wallMs;
    this.#batches = shard.engine.batches.counts.unfinished;
  }

  step(answerer: ControlAnswerer): boolean {
    const batches: BatchSign[] = [];
    for (let slice = SLICE_BATCHES; slice > 0 && this.#left > 0; slice--) {
      const { done, value } = this.#batches.next();
      this.#left = done === true ? 0 : this.#left - 1;
      const sign = done === true ? undefined : signOf(value);
      if (sign !== undefined) batches.push(sign);
    }
    assert(batches.length <= SLICE_BATCHES, "a part has no more batches than a slice");
    const isLast = this.#left === 0;
    answerer.value(isLast ? { batches, schedules: this.#schedules() } : { batches }, isLast);
    return isLast;
  }

  #schedules(): NonNullable<FlowSigns["schedules"]> {
    const { paused, refused, missing } = this.#shard.engine.schedules.table;
    return { paused: this.#first(paused), refused: this.#first(refused), missing: this.#first(missing) };
  }

  #first(schedules: ReadonlySet<Schedule>): { count: number; first: ScheduleSign[] } {
    const first: ScheduleSign[] = [];
    for (const { name, nextMs, lastRefusal, missedInARow } of schedules) {
      if (first.length === SCHEDULES_NAMED) break;
      const lateSeconds = Math.max(0, this.#wallMs - nextMs) / 1000;
      first.push({ name, lateSeconds, refusal: REFUSAL_WORDS[lastRefusal], missed: missedInARow });
    }
    return { count: schedules.size, first };
  }
}

/**
 * Returns undefined for a cancelled batch, and for one without anything to report on this shard.
 */
function signOf(batch: BatchRow): BatchSign | undefined {
  const { number, name, state, dead, failed, formerFailed, buried, waitingJobs } = batch;
  const allFailed = dead + failed + formerFailed;
  if (state === BatchState.Cancelled) return undefined;
  if (allFailed + buried + waitingJobs === 0) return undefined;
  return [number, allFailed + buried > 0 ? name : "", allFailed, buried, waitingJobs];
}
