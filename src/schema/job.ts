// What is counted of a job: one row per counter. From the rows follow the columns of the engine,
// the records of the log, stats-job and inspect-job, the rows of lists, the HTTP API with its
// schemas, the client's types, the columns of the command line and those of the dashboard.
//
// A new counter is a row here with an attribute of its own, and the place that counts. Records of
// older servers lack the attribute: the counter is 0 then.

import { eachOf } from "./names.ts";

interface CounterRow {
  /** Its position, which never changes: records of the log have the first ones in this order. */
  readonly at: number;
  /**
   * Tag of the attribute with it, u32 (protocol/job-attribute.ts); without one, it is in the fixed
   * part of each record.
   */
  readonly attribute?: number;
  /** One sentence, for documents. */
  readonly says: string;
}

const ROWS = {
  reserves: { at: 0, says: "How often it was reserved." },
  timeouts: { at: 1, says: "Reservations that timed out." },
  releases: { at: 2, says: "How often a worker released it." },
  buries: { at: 3, says: "How often it was buried." },
  kicks: { at: 4, says: "How often it was kicked." },
  disconnects: {
    at: 5,
    attribute: 27,
    says: "Reservations that ended with the connection of their worker.",
  },
} as const satisfies Readonly<Record<string, CounterRow>>;

export type JobCounterName = keyof typeof ROWS;
/** Those that every job has in stats-job, as in beanstalkd. */
export type FixedCounterName = {
  [Name in JobCounterName]: (typeof ROWS)[Name] extends { attribute: number } ? never : Name;
}[JobCounterName];
/** The counters of a job, by name. */
export type JobCounters = Readonly<Record<JobCounterName, number>>;

/** Names of all counters, by position. */
export const JOB_COUNTERS: readonly JobCounterName[] = Object.keys(ROWS) as JobCounterName[];
export const JOB_COUNTER_ROWS: Readonly<Record<JobCounterName, CounterRow>> = ROWS;

/** The position of each counter. */
export const JobCounter = eachOf(JOB_COUNTERS, (name) => ROWS[name].at) as {
  readonly [Name in JobCounterName]: (typeof ROWS)[Name]["at"];
};
export type JobCounter = (typeof JobCounter)[JobCounterName];

/** Attribute of each rare counter, by its position after the fixed ones. Few jobs have any. */
export const RARE_COUNTER_ATTRIBUTES: readonly number[] = JOB_COUNTERS.flatMap(
  (name) => JOB_COUNTER_ROWS[name].attribute ?? [],
);
export const RARE_COUNTERS: number = RARE_COUNTER_ATTRIBUTES.length;
/** Number of the counters in the fixed part of a record: the first ones. */
export const FIXED_COUNTERS: number = JOB_COUNTERS.length - RARE_COUNTERS;

/** Returns the fixed counters with these values, 0 where none is given. */
export const fixedCounters = (values: Partial<JobCounters> = {}): Uint32Array =>
  Uint32Array.from(JOB_COUNTERS.slice(0, FIXED_COUNTERS), (name) => values[name] ?? 0);

export const eachJobCounter = <Value>(
  toValue: (name: JobCounterName, at: JobCounter) => Value,
): Readonly<Record<JobCounterName, Value>> => eachOf(JOB_COUNTERS, (name) => toValue(name, JobCounter[name]));

/** An end of a job as `finished-jobs` lists it; times in seconds ago. */
export interface FinishedJob {
  readonly id: number;
  readonly state: "deleted" | "dead" | "expired" | "cancelled";
  readonly put: number;
  /** When its last reservation began, if there was one and it is known. */
  readonly start?: number;
  readonly end: number;
  readonly attempts: number;
  /** Who held it at the end. */
  readonly worker?: string;
  readonly unique?: string;
  readonly group?: string;
  readonly note?: string;
  /** Why it was cancelled, or why its last attempt failed. */
  readonly reason?: string;
}
