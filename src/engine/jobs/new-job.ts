// Descriptions of jobs for the engine, without their bodies. The engine keeps no reference to these
// objects, so their owners reuse them.

import type { JobState } from "./job-table.ts";

export interface JobFacts {
  /** Positive, and unique over all shards. */
  readonly id: number;
  readonly pri: number;
  readonly delaySeconds: number;
  readonly ttrSeconds: number;
  readonly bodyBytes: number;
  /**
   * When the job was created, that is, when its put was read; monotonic ms. Negative for a job
   * older than the process.
   */
  readonly atMs: number;
}

export interface NewJob extends JobFacts {
  /** The fraction of the delay, 0 to 999 ms. */
  readonly delayMillis: number;
}

/** A job from the log. */
export interface RestoredJob extends JobFacts {
  readonly tube: string;
  /** Ready, Delayed or Buried. */
  readonly state: JobState;
  /**
   * For a delayed job, when it becomes ready; otherwise when it became ready or was buried.
   * Monotonic ms.
   */
  readonly deadlineAtMs: number;
  /** The fixed counters (schema/job.ts). */
  readonly counters: Uint32Array;
  /** Number of the log file with the full record. */
  readonly file: number;
}

/** Properties of a job that differ at its destination. */
export interface ChangedFacts {
  readonly pri: number;
  readonly ttrSeconds: number;
  readonly releases: number;
  /** Monotonic ms; 0 for never. */
  readonly expiresAtMs: number;
  readonly attemptsBase: number;
}

/** A change to a job; undefined properties stay. */
export interface JobChange {
  readonly pri: number | undefined;
  /** Makes the job ready (0), or delayed by this time. */
  readonly delayMs: number | undefined;
  readonly ttrSeconds: number | undefined;
  /** Time from now until the job expires; 0 for never. */
  readonly ttlMs?: number | undefined;
  /** The destination tube. The job keeps its state there; a held one is returned. */
  readonly tube?: string | undefined;
}
