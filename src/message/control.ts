// The HTTP thread's questions to a shard, besides commands, and the answers. This file has only
// their shapes; the bytes are MessagePack.
//
// A question is `[verb, arguments]`. Its answer comes in one or more messages (flag More), each a
// complete value. A list of tubes is not MessagePack but has a fixed layout, because 200 rows take
// 0.36 ms as packed values and 0.01 ms this way:
//
//   offset 0  uint32   rows
//   offset 4  uint32   zero
//   offset 8  float64  TUBE_FIELDS for each row (schema/tube.ts)
//   then      for each row: uint8 length of the name, and the name

import type { Failure } from "../protocol/job-failure.ts";
import type { FinishedJob, JobCounters } from "../schema/job.ts";
import type { JOB_COUNTS, POLICY_COUNT_NAMES, TubeCounter } from "../schema/tube.ts";

export const TUBE_ROWS_AT = 8;

/** Totals of a shard since its start, and its current state. */
export interface ShardTotals extends Readonly<Record<TubeCounter, number>> {
  readonly nowMs: number;
  readonly jobs: Readonly<Record<(typeof JOB_COUNTS)[number], number>>;
  readonly touches: number;
  readonly tubes: number;
  readonly waiting: number;
  readonly batches: BatchFigures;
  readonly flows: FlowFigures;
  /** How far the slowest schedule is behind. */
  readonly scheduleLateMs: number;
  /** Time until the earliest tick; Infinity without one. */
  readonly scheduleNextMs: number;
  /** Jobs held by the HTTP thread's slot 0: see shard/control/leases.ts. */
  readonly leases: number;
  /** Ends of jobs that tubes keep. */
  readonly finished: number;
  readonly jobsMemoryBytes: number;
  readonly bodiesMemoryBytes: number;
  readonly wait: Distribution;
  readonly hold: Distribution;
  readonly body: Distribution;
}

/** The batches of the server; each shard knows all of them. */
export interface BatchFigures {
  readonly open: number;
  readonly committed: number;
  readonly cancelled: number;
  readonly complete: number;
  /**
   * Time since the opening of the oldest open batch, and of the oldest incomplete one; 0 for none.
   */
  readonly openMs: number;
  readonly unfinishedMs: number;
}

/** A shard's counts of batches and schedules: see BatchTotals and Schedules. */
export interface FlowFigures {
  readonly batchesOpened: number;
  readonly batchesSuccess: number;
  readonly batchesFailure: number;
  readonly batchesCancelled: number;
  readonly members: number;
  readonly membersDone: number;
  readonly membersFailed: number;
  readonly callbacksWaiting: number;
  readonly callbacksReleased: number;
  readonly callbacksBuried: number;
  readonly schedules: number;
  readonly schedulesPaused: number;
  readonly schedulesRefused: number;
  readonly ticksPut: number;
  readonly ticksMissed: number;
  readonly ticksDuplicate: number;
  readonly ticksSkipped: number;
  readonly scheduleRefusals: number;
  readonly scheduleRuns: number;
}

/** Counts per bucket of the bounds below, with one more above the last; not cumulative. */
export interface Distribution {
  readonly counts: readonly number[];
  readonly sum: number;
}

/** Seconds that jobs wait and are held. */
export const WAIT_BOUNDS_SECONDS = [
  0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 3600, 21600, 86400,
] as const;
/** The same for individual tubes in metrics: some of the bounds above. */
export const TUBE_BOUNDS_SECONDS = [0.01, 0.1, 1, 10, 60, 600, 3600, 86400] as const;
/** Tubes with such times, per shard and in all. */
export const MEASURED_TUBES_MAX = 100;
/** Bytes of bodies. */
export const BODY_BOUNDS_BYTES = [
  64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864,
] as const;

/** How long the jobs of a tube waited and were held since it was first asked for. */
export interface TubeTimes {
  readonly wait: Distribution;
  readonly hold: Distribution;
}

/** In milliseconds. */
export interface Quantiles {
  readonly count: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

/**
 * The holder of a job: a connection of an acceptor. Slot 0 of the HTTP thread's port stands for a
 * lease.
 */
export type Holder = { readonly port: number; readonly slot: number };

/** A failed attempt; texts are Latin-1. */
export interface FailureFacts extends Omit<Failure, "atMs"> {
  /** In seconds. */
  readonly age: number;
}

/** The facts in stats-job, and more. */
export interface JobFacts extends JobCounters, JobSaid {
  readonly id: number;
  readonly tube: string;
  readonly state: "ready" | "reserved" | "buried" | "delayed";
  readonly pri: number;
  /** In seconds. */
  readonly age: number;
  readonly delay: number;
  readonly ttr: number;
  readonly timeLeft: number;
  /** Reservations that count for `max-attempts`. */
  readonly attempts: number;
  /** The tube in which it died, or "", and a DeathReason. */
  readonly origin: string;
  readonly death: number;
  /** The last failures, newest first; only one in a list of jobs. */
  readonly failures: readonly FailureFacts[];
  /** Seconds since it became ready or was buried; undefined in other states. */
  readonly sinceSeconds: number | undefined;
  readonly holder: Holder | undefined;
  /** The log file, as in stats-job. Only in the answer for a single job. */
  readonly file?: number;
  /** Options that the job was put with; undefined without any. */
  readonly options: JobOptions | undefined;
  /** The batch that it belongs to, until that batch is forgotten. */
  readonly batch: string | undefined;
  /** The batch that it waits for. */
  readonly waitsFor: { readonly name: string; readonly isAny: boolean } | undefined;
  readonly bytes: number;
  /** The beginning of the body. */
  readonly body: Uint8Array | undefined;
}

/** What is said of a job while a client holds it; texts are Latin-1. */
export interface JobSaid {
  /** In percent. */
  readonly progress: number | undefined;
  /** "" for none. */
  readonly note: string;
  /** Why the job was cancelled; undefined if it was not. */
  readonly cancelled: string | undefined;
}

/** The end of a job. Texts are Latin-1. */
export type FinishedFacts = FinishedJob;

/** Keys are Latin-1: each character is a byte. */
export interface JobOptions {
  /** Seconds until it expires. */
  readonly expiresIn: number | undefined;
  readonly unique: string | undefined;
  readonly group: string | undefined;
  readonly weight: number;
  readonly cost: number;
  /** Context: `<name>:<value>`. */
  readonly meta: readonly string[];
}

/**
 * A change to a leased job. It takes effect only while the lease is valid, that is, while the job's
 * count of reserves is unchanged.
 */
export interface LeaseChange {
  readonly act: "delete" | "release" | "bury" | "touch";
  readonly id: number;
  readonly reserves: number;
  readonly pri?: number | undefined;
  readonly delay?: number | undefined;
  /** At most REASON_BYTES_MAX bytes; for release and bury. */
  readonly reason?: Uint8Array | undefined;
  /** For touch; the note has at most OPTION_VALUE_BYTES_MAX bytes. */
  readonly progress?: number | undefined;
  readonly note?: Uint8Array | undefined;
}

/** Whether the lease was valid; a string if the touched job was cancelled: why, in Latin-1. */
export type LeaseOutcome = boolean | string;

/** A filter of jobs: all conditions must hold. Ages are in seconds. */
export interface Where {
  readonly idFrom?: number;
  readonly idTo?: number;
  readonly priFrom?: number;
  readonly priTo?: number;
  readonly ageFrom?: number;
  readonly ageTo?: number;
  readonly reservesFrom?: number;
  readonly timeoutsFrom?: number;
  readonly disconnectsFrom?: number;
  /** True for jobs that have used up their attempts, or have expired. */
  readonly dead?: boolean;
  /** Bytes that occur anywhere in the body, 1 to 200. */
  readonly text?: Uint8Array;
  /** The group and the unique key, Latin-1. */
  readonly group?: string;
  readonly unique?: string;
  /** The batches that the job belongs to and waits for. */
  readonly batch?: string;
  readonly waitsFor?: string;
  /** The batch that the job either belongs to or waits for. */
  readonly ofBatch?: string;
}

export type StateName = JobFacts["state"];

export interface BrowseQuestion {
  /** Undefined: the jobs of all tubes on the shard. */
  readonly tube?: string;
  readonly states: readonly StateName[];
  readonly where: Where;
  /**
   * "scan" is in order of ids; "next" is the order in which jobs of one state of a tube would be
   * reserved.
   */
  readonly order: "scan" | "next";
  readonly afterId: number;
  readonly limit: number;
  /** Maximum bytes shown of a body; a negative number shows none. */
  readonly bodyMax: number;
  /**
   * Maximum bytes of all bodies together. Beyond it, a scan pauses, and the order "next" shows no
   * more.
   */
  readonly bodyBytesMax: number;
  /** Maximum number of jobs examined before a pause. */
  readonly looksMax: number;
}

/** Part of a list. */
export interface BrowsePart {
  readonly jobs: readonly JobFacts[];
  /** All ids up to this one are done. */
  readonly doneId: number;
  /** Whether all ids are done. */
  readonly hasEnded: boolean;
  readonly examined: number;
}

/** The properties of a job that can be set. A delay is in seconds and begins now. */
interface JobSet {
  readonly pri?: number | undefined;
  readonly delay?: number | undefined;
  readonly ttr?: number | undefined;
}

export type BulkAct = "kick" | "delete" | "move" | "redrive" | "update";

/** A bulk operation on the jobs of a tube. */
export interface BulkQuestion {
  readonly tube: string;
  readonly act: BulkAct | "count";
  /** What is counted: the jobs that this would change. */
  readonly of?: BulkAct | undefined;
  /** The target tube of a move. */
  readonly to?: string | undefined;
  /** The changes of an update. */
  readonly set?: JobSet | undefined;
  readonly states: readonly StateName[];
  readonly where: Where;
  readonly max: number;
}

/** Progress of a bulk operation. */
export interface BulkPart {
  readonly affected: number;
  readonly examined: number;
  /** From 0 to 1. */
  readonly progress: number;
  /** Why it ended early: the target tube, or its shard, takes no more. */
  readonly refusal?: "TUBE_FULL" | "OUT_OF_MEMORY";
}

/**
 * A setting in effect: its name and value as set-tube writes them, and the pattern that it comes
 * from.
 */
export type SettingInEffect = readonly [name: string, value: string, from: string];

/** The facts of inspect-tube. */
export interface TubeDetails extends Readonly<Record<(typeof POLICY_COUNT_NAMES)[number], number>> {
  readonly groups: number;
  readonly groupsBlocked: number;
  /** Jobs that may be reserved at once now; undefined without a rate limit. */
  readonly tokens: number | undefined;
}

/** Part of a list of settings, by pattern; the parts are in order. */
type SettingsPart = readonly (readonly [pattern: string, text: string])[];

export interface HeldJob {
  readonly id: number;
  readonly timeLeft: number;
}

/**
 * A shard's counts for an incomplete batch: members that failed and that are buried here, and jobs
 * here that wait for it. Its name is "" if none failed or is buried.
 */
export type BatchSign = readonly [
  number: number,
  name: string,
  failed: number,
  buried: number,
  waiting: number,
];

/** A schedule that is paused, refused, or has missed ticks. */
export interface ScheduleSign {
  /** UTF-8 as Latin-1. */
  readonly name: string;
  /** How long its tick has been due, if it is refused; and why. */
  readonly lateSeconds: number;
  readonly refusal: string;
  /** Ticks missed in a row. */
  readonly missed: number;
}

/** Why a schedule is among the signs. */
export type ScheduleTrouble = "paused" | "refused" | "missing";

/** Batches and schedules that need an operator's attention. */
export interface FlowSigns {
  readonly batches: readonly BatchSign[];
  /** Only in the last part: how many there are, and the first ones. */
  readonly schedules?: Readonly<
    Record<ScheduleTrouble, { readonly count: number; readonly first: readonly ScheduleSign[] }>
  >;
}

/** All questions, `[verb, arguments]`, with the arguments of each. */
export interface Questions {
  ping: undefined;
  totals: undefined;
  latency: undefined;
  tubes: { name?: string | undefined };
  /** Measures these tubes of the shard, at most MEASURED_TUBES_MAX, from now on, and no others. */
  "tube-times": { tubes: readonly string[] };
  job: { id: number; bodyMax: number };
  /** The last end of a job, if its tube keeps it. */
  finished: { id: number };
  leases: { changes: readonly LeaseChange[] };
  /**
   * Leases that no client will learn of: their jobs become ready again, as if a connection had
   * ended.
   */
  "give-back": { jobs: readonly { id: number; reserves: number }[] };
  browse: BrowseQuestion;
  bulk: BulkQuestion;
  /** The first settings of this shard, in order, whose patterns come after this one. */
  settings: { after: string; limit: number };
  /** The settings of one pattern, from the shard that keeps them. */
  setting: { pattern: string };
  /** The settings of a tube, which need not exist, and its details if it does. */
  "inspect-tube": { tube: string };
  "flow-signs": undefined;
  /** Ends the browse or bulk question with this number. */
  cancel: { number: number };
  /**
   * "release" ends a reservation as an expired TTR would. With `force`, "delete" applies to
   * reserved jobs, too.
   */
  "job-act": { id: number; act: "delete" | "kick" | "release" | "move"; force: boolean; to?: string };
  /** The jobs that connections of a port hold on this shard, at most 100 each. */
  sessions: { port: number; slots: readonly number[] };
}

export interface Answers {
  ping: true;
  totals: ShardTotals;
  latency: { wait: Quantiles; hold: Quantiles };
  tubes: never;
  /** A part of them, by name. */
  "tube-times": readonly (readonly [name: string, times: TubeTimes])[];
  job: JobFacts | null;
  finished: (FinishedFacts & { readonly tube: string }) | null;
  /** Whether each change took effect. */
  leases: readonly LeaseOutcome[];
  "give-back": number;
  browse: BrowsePart;
  bulk: BulkPart;
  settings: SettingsPart;
  setting: string | null;
  "inspect-tube": { settings: readonly SettingInEffect[]; details: TubeDetails | null };
  /** A part of them. */
  "flow-signs": FlowSigns;
  cancel: boolean;
  "job-act": "done" | "not-found" | "reserved" | "state" | "full" | "elsewhere";
  sessions: readonly { held: number; jobs: readonly HeldJob[]; waiting: boolean }[];
}

export type Verb = keyof Questions;

// The texts that clients wrote into a job: who may read only states and counts sees none of them.

interface JobTexts extends JobSaid {
  readonly options: JobOptions | undefined;
  readonly failures: readonly { readonly reason: string }[];
  readonly body: Uint8Array | undefined;
}

/**
 * Returns facts about a job without its texts: body, metadata, unique key, group, note, and the
 * reasons of its failures and of its cancellation. Over HTTP and on the wire, this function alone
 * decides what is a text.
 */
export function withoutTexts<Facts extends JobTexts>(facts: Facts): Facts {
  const { options, failures, cancelled } = facts;
  return {
    ...facts,
    options:
      options === undefined ? undefined : { ...options, meta: [], unique: undefined, group: undefined },
    failures: failures.map((failure) => ({ ...failure, reason: "" })),
    note: "",
    cancelled: cancelled === undefined ? undefined : "",
    body: undefined,
  };
}
