// The state machine of one shard: its tubes, jobs and sessions, and every change that a command or
// a timer makes.
//
// The engine is pure: time comes in as a number (monotonic ms, never decreasing), and effects go
// out through two interfaces. It never reads a clock, a random number, a file or a socket. Each
// public method first runs due timers, so a command that arrives exactly at a deadline sees the
// state after it. README.md describes the life of a job, docs/architecture/engine-invariants.md the
// invariants, which `checkInvariants` tests. QueueCore has what beanstalkd has; here are the parts
// for everything else.

import { assert, CHECKED } from "../base/assert.ts";
import { BatchEnds } from "./batch-ends.ts";
import { BatchReserves } from "./batch-reserves.ts";
import { JobChanges } from "./job-changes.ts";
import { BodySearch, type JobFilter, JobWalk, TubeClearing } from "./job-walk.ts";
import type { JobAttributes } from "./jobs/new-job.ts";
import { NO_ROW } from "./policies/key-table.ts";
import { QueueCore } from "./queue-core.ts";
import { Schedules } from "./schedules.ts";
import { Transfers } from "./transfers.ts";

// The memory that clients make a shard keep, as --max-memory counts it. src/memory-bounds.md lists
// everything that clients can make grow.
//
// The figure falls whenever something is removed, unlike the memory taken from the system. Each put
// computes it (`Engine.memoryBytes`), at the cost of a few reads.

/** Measured sizes in bytes, rounded up, with names of tubes and groups of about 30 bytes. */
export const BYTES_OF = {
  /** The job's row, index entry and heap position. Body and attributes are in the arena. */
  job: 112,
  /** The job's row in a page where some jobs have attributes. */
  extras: 38,
  /** A page's columns for failures, if a job on it has failed. The failures are in the arena. */
  failurePage: 65536,
  tube: 512,
  watch: 256,
  /** A watched tube's share, besides its watch, if the session has weights. */
  share: 256,
  group: 400,
  /** The token bucket of a group that has jobs. */
  bucket: 128,
  /** The key's row and entry. The key itself is in the arena. */
  key: 64,
  retiredLimiter: 200,
  setting: 256,
  /** Without its texts, which are counted separately, and its body, which is in the arena. */
  schedule: 1024,
  /** A schedule with jobs on the shard, wherever the schedule is. */
  scheduled: 256,
  /** A page's columns of batches, if a job on it belongs to one or waits for one. */
  flowPage: 139264,
  /** A page's column of notes, if a job on it has one. The notes are in the arena. */
  notePage: 32768,
  /** A tube with ends that are kept, a place for one, and a page's column of starts. */
  history: 640,
  finished: 12,
  startPage: 65536,
  /** A batch, on each shard, with a name of up to 200 bytes. */
  batch: 768,
} as const;

/** Maximum bytes that one more put may add, besides its body. */
export const PUT_BYTES: number =
  BYTES_OF.job + BYTES_OF.extras + BYTES_OF.tube + BYTES_OF.group + BYTES_OF.bucket + BYTES_OF.key;

export { Outcome } from "./jobs/ends.ts";
export { ReserveOutcome } from "./queue-core.ts";

export class Engine extends QueueCore {
  readonly batchReserves: BatchReserves = new BatchReserves(this);
  readonly changes: JobChanges = new JobChanges(this);
  readonly transfers: Transfers = new Transfers(this, this.changes);
  readonly batchEnds: BatchEnds = new BatchEnds(this);
  readonly search: BodySearch = new BodySearch(this.bodies);
  readonly schedules: Schedules = new Schedules(this);

  /** Bytes that clients make the shard keep. */
  get memoryBytes(): number {
    const { jobs, tubes } = this;
    if (CHECKED)
      assert(
        jobs.live >= 0 && jobs.groups >= 0 && this.waiters.watches >= 0,
        "counts of what takes memory are not negative",
      );
    return (
      this.bodies.usedBytes +
      jobs.live * BYTES_OF.job +
      jobs.spareExtras.rows * BYTES_OF.extras +
      jobs.failurePages * BYTES_OF.failurePage +
      tubes.size * BYTES_OF.tube +
      (tubes.retiredLimiters.size + tubes.retiredBuckets.size) * BYTES_OF.retiredLimiter +
      jobs.groups * BYTES_OF.group +
      jobs.buckets * BYTES_OF.bucket +
      this.waiters.watches * BYTES_OF.watch +
      this.waiters.shares * BYTES_OF.share +
      this.policies.keys.table.size * BYTES_OF.key +
      this.settings.size * BYTES_OF.setting +
      this.schedules.table.size * BYTES_OF.schedule +
      this.schedules.table.textBytes +
      this.scheduled.size * BYTES_OF.scheduled +
      jobs.spareExtras.flowPages * BYTES_OF.flowPage +
      jobs.spareExtras.notePages * BYTES_OF.notePage +
      jobs.startPages * BYTES_OF.startPage +
      this.policies.finished.tubes * BYTES_OF.history +
      this.policies.finished.places * BYTES_OF.finished +
      this.batches.size * BYTES_OF.batch
    );
  }

  hasKey(tubeName: string, attributes: JobAttributes): boolean {
    const tube = this.findTube(tubeName);
    return tube !== undefined && this.policies.keys.rowFor(tube, attributes) !== NO_ROW;
  }

  // --- many jobs ---------------------------------------------------------------------------------

  /** Returns a walk through the jobs with ids above `afterId`, up to the highest present id. */
  walk(filter: JobFilter, afterId: number): JobWalk {
    return new JobWalk(this, filter, afterId, this.index.highestId);
  }

  /** Begins to clear a tube of up to `limit` jobs that exist now; deletes nothing yet. */
  clearing(tube: string, filter: JobFilter, limit: number): TubeClearing {
    return new TubeClearing(this, tube, this.walk(filter, 0), limit);
  }

  /** Deletes up to `jobsMax` jobs of a clearing; returns whether it is done. */
  clear(clearing: TubeClearing, jobsMax: number, nowMs: number): boolean {
    this.runDue(nowMs);
    return clearing.step(jobsMax, nowMs);
  }
}
