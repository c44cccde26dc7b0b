// The ways in which a reservation or a job ends, and what each means for attempts, backoff,
// failures, the unique key and the batch. docs/commands.md shows this table to users.

import { FailureCause } from "../../protocol/job-failure.ts";

// The outcome of a command on a job.

/**
 * Only a put can fail because the log has no room, because its key is taken (`duplicateOf` has the
 * holder), or because its tube is full. Only commands that name a tube can find it on another
 * shard, or full. Kept to Debounced are what a put with a taken key may do to the holder. Only a
 * cancellation marks a job.
 */
export const Outcome = {
  Done: 0,
  NotFound: 1,
  NoRoom: 2,
  Duplicate: 3,
  TubeFull: 4,
  OtherShard: 5,
  Kept: 6,
  Replaced: 7,
  Escalated: 8,
  Debounced: 9,
  TooBig: 10,
  NoBatch: 11,
  BatchCommitted: 12,
  BatchOrder: 13,
  Marked: 14,
} as const;
export type Outcome = (typeof Outcome)[keyof typeof Outcome];

/** What becomes of the unique key. */
export const KeyAfter = {
  /** The job keeps it. */
  Kept: "kept",
  /** It is free, or remembered until `unique-for` is over. */
  Remembered: "remembered",
} as const;
export type KeyAfter = (typeof KeyAfter)[keyof typeof KeyAfter];

/** What becomes of a member of a batch. */
export const MemberAfter = { Open: "open", Done: "done", Failed: "failed" } as const;
export type MemberAfter = (typeof MemberAfter)[keyof typeof MemberAfter];

/** What `finished-jobs` calls the end of a job; the first if the job goes on. */
export const FINISHED_WORDS = ["open", "deleted", "dead", "expired", "cancelled"] as const;
export type FinishedWord = (typeof FINISHED_WORDS)[number];

/** The end of a job; times in monotonic ms, texts in Latin-1. */
export interface FinishedJob {
  readonly id: number;
  readonly state: FinishedWord;
  readonly putAtMs: number;
  /** When the last reservation began; -1 for none, or if that is unknown. */
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  readonly attempts: number;
  /** The worker that held it at the end. */
  readonly worker: string;
  readonly unique: string;
  readonly group: string;
  readonly note: string;
  /** Why it was cancelled, or why its last attempt failed. */
  readonly reason: string;
}

export interface End {
  readonly what: string;
  /** Whether the reservation was an attempt, so that `max-attempts` counts it. */
  readonly isAttempt: boolean;
  /** Whether the job waits for the backoff of its tube, if nobody chose a delay. */
  readonly backsOff: boolean;
  /** How the failure appears in the job's `failures`; undefined if the end is none. */
  readonly failure: FailureCause | undefined;
  readonly key: KeyAfter;
  readonly member: MemberAfter;
  readonly finished: FinishedWord;
}

const { Kept, Remembered } = KeyAfter;
const { Open, Done, Failed } = MemberAfter;

function end<Cause extends FailureCause | undefined>(
  what: string,
  isAttempt: boolean,
  backsOff: boolean,
  failure: Cause,
  key: KeyAfter,
  member: MemberAfter,
): End & { readonly failure: Cause } {
  return { what, isAttempt, backsOff, failure, key, member, finished: "open" };
}

function last<Cause extends FailureCause | undefined>(
  what: string,
  failure: Cause,
  member: MemberAfter,
  finished: FinishedWord,
): End & { readonly failure: Cause } {
  return { ...end(what, true, false, failure, Remembered, member), finished };
}

export const ENDS = {
  // The job comes back.
  Released: end("`release`", true, true, undefined, Kept, Open),
  ReleasedWithReason: end("`release` with `reason=`", true, true, FailureCause.Released, Kept, Open),
  Buried: end("`bury`", true, false, FailureCause.Buried, Kept, Open),
  TimedOut: end("its ttr is over", true, true, FailureCause.TimedOut, Kept, Open),
  Disconnected: end("the connection ends", true, true, FailureCause.Disconnected, Kept, Open),
  Stopped: end("the server stops, or is killed", false, false, undefined, Kept, Open),
  Unreceived: end("its client never got the job", false, false, undefined, Kept, Open),
  Updated: end("`update-job` with `delay=`", false, false, undefined, Kept, Open),
  HandedOn: end("`update-job` with `tube=`", false, false, undefined, Kept, Open),
  HandOverFailed: end(
    "that, but the tube is full and the client is gone",
    false,
    false,
    undefined,
    Kept,
    Open,
  ),
  // The job ends.
  Done: last("`delete` by its holder", undefined, Done, "deleted"),
  Deleted: last("`delete` by anyone else", undefined, Failed, "deleted"),
  Cleared: last("`clear-tube`", undefined, Failed, "deleted"),
  BatchCancelled: last("`cancel-batch`", undefined, Failed, "cancelled"),
  Cancelled: last(
    "`cancel-job`, at once or in place of what would bring the job back",
    undefined,
    Failed,
    "cancelled",
  ),
  Expired: last("its ttl is over", FailureCause.Expired, Failed, "expired"),
  Died: last("it has used up its attempts", undefined, Failed, "dead"),
} as const satisfies Readonly<Record<string, End>>;
