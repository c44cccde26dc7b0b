// The totals of a shard, in one message.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { JobState } from "../../engine/jobs/job-table.ts";
import type { BatchFigures, FlowFigures, ShardTotals } from "../../message/control.ts";
import { BatchOutcome, BatchState } from "../../protocol/batch-facts.ts";
import type { ControlShard } from "./control-work.ts";
import type { LatencyMeter } from "./latency-meter.ts";

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
    puts: engine.totalJobs,
    reserves: engine.jobReserves,
    deletes: engine.jobDeletes,
    releases: engine.jobReleases,
    buries: engine.jobBuries,
    kicks: engine.jobKicks,
    touches: engine.jobTouches,
    timeouts: engine.jobTimeouts,
    disconnects: engine.jobDisconnects,
    deaths: engine.jobDeaths,
    expiries: engine.jobExpiries,
    duplicates: engine.putDuplicates,
    refusals: engine.putRefusals,
    rateWaits: engine.rateWaits,
    tubes: engine.tubes.size,
    waiting,
    batches: batchFigures(engine, nowMs),
    flows: flowFigures(engine),
    scheduleLateMs: table.lateMs(wallMs),
    scheduleNextMs: Math.max(0, table.timers.nextAtMs - wallMs),
    leases: engine.session(leaseSession).held.size,
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
    scheduleRefusals: schedules.counts.refusals,
    scheduleRuns: schedules.counts.runs,
  };
}
