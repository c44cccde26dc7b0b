// What the engine is told of a job, besides its body. It keeps nothing of these objects, so their owners use
// them again.

import type { JobState } from "./job-table.ts";

export interface JobFacts {
  /** Positive, and new on all shards. */
  readonly id: number;
  readonly pri: number;
  readonly delaySeconds: number;
  readonly ttrSeconds: number;
  readonly bodyBytes: number;
  /**
   * When it was created, ms of the monotonic clock: its put was read then. Negative for a job older than the
   * process.
   */
  readonly atMs: number;
}

export interface NewJob extends JobFacts {
  /** What its delay has besides its seconds, 0 to 999 ms. */
  readonly delayMillis: number;
}

/** A job from the log. */
export interface RestoredJob extends JobFacts {
  readonly tube: string;
  /** Ready, Delayed or Buried. */
  readonly state: JobState;
  /** When it becomes ready if it is delayed; since when it is ready or buried otherwise. Ms of the monotonic clock. */
  readonly deadlineAtMs: number;
  readonly reserves: number;
  readonly timeouts: number;
  readonly releases: number;
  readonly buries: number;
  readonly kicks: number;
  /** Number of the log file with its full record. */
  readonly file: number;
}

/** What a job is where it goes, instead of what it is here. */
export interface ChangedFacts {
  readonly pri: number;
  readonly ttrSeconds: number;
  readonly releases: number;
  /** Ms of the monotonic clock; 0 for never. */
  readonly expiresAtMs: number;
  readonly attemptsBase: number;
}

/** What is changed of a job; what is undefined stays. */
export interface JobChange {
  readonly pri: number | undefined;
  /** It becomes ready, or delayed for so long. */
  readonly delayMs: number | undefined;
  readonly ttrSeconds: number | undefined;
  /** It expires so long from now, 0 for never. */
  readonly ttlMs?: number | undefined;
  /** Where it goes: in its state, or given back if it is held. */
  readonly tube?: string | undefined;
}
