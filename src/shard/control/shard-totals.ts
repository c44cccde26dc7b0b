// The totals of a shard, in one message.

import { JobState } from "../../engine/jobs/job-table.ts";
import type { ShardTotals } from "../../message/control.ts";
import type { ControlShard } from "./control-work.ts";
import type { LatencyMeter } from "./latency-meter.ts";

export function shardTotals(
  { engine, nowMs }: ControlShard,
  { wait, hold, body }: LatencyMeter,
  leaseSession: number,
  waiting: number,
): ShardTotals {
  const { jobCounts } = engine;
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
    deaths: engine.jobDeaths,
    expiries: engine.jobExpiries,
    duplicates: engine.putDuplicates,
    refusals: engine.putRefusals,
    rateWaits: engine.rateWaits,
    tubes: engine.tubes.size,
    waiting,
    leases: engine.session(leaseSession).held.size,
    jobsMemoryBytes: engine.jobs.reservedBytes,
    bodiesMemoryBytes: engine.bodies.reservedBytes,
    wait: wait.counted,
    hold: hold.counted,
    body,
  };
}
