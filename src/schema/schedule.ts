// What is counted of a schedule: one row per counter. From the rows follow the fields of the
// engine, the record of the log, inspect-schedule and list-schedules, the HTTP API with its
// schemas, the client's types and the columns of the command line.
//
// A new counter is a row here with the next position, and the place that counts. Records of older
// servers lack it: it is 0 then.

import { eachOf, wordOf } from "./names.ts";

interface CounterRow {
  /** Its position in ScheduleProgress, which never changes. */
  readonly at: number;
  /** Whether lists show it, too. */
  readonly isListed?: true;
  /** One sentence, for documents. */
  readonly says: string;
}

const ROWS = {
  fired: { at: 0, isListed: true, says: "Jobs that ticks have put." },
  runs: { at: 1, says: "Jobs that run has put." },
  missedTicks: { at: 2, isListed: true, says: "Ticks that put no job." },
  duplicates: { at: 3, says: "Ticks whose key another job had." },
  refusals: { at: 4, isListed: true, says: "Refused attempts to put a job." },
  skipped: { at: 5, isListed: true, says: "Ticks that put no job, because an earlier one existed." },
} as const satisfies Readonly<Record<string, CounterRow>>;

export type ScheduleCounter = keyof typeof ROWS;
export type ListedCounter = {
  [Name in ScheduleCounter]: (typeof ROWS)[Name] extends { isListed: true } ? Name : never;
}[ScheduleCounter];
export type ScheduleCounts = Record<ScheduleCounter, number>;

export const SCHEDULE_COUNTERS: readonly ScheduleCounter[] = Object.keys(ROWS) as ScheduleCounter[];
export const SCHEDULE_COUNTER_ROWS: Readonly<Record<ScheduleCounter, CounterRow>> = ROWS;
export const LISTED_COUNTERS: readonly ListedCounter[] = SCHEDULE_COUNTERS.filter(
  (name): name is ListedCounter => SCHEDULE_COUNTER_ROWS[name].isListed === true,
);

export const eachScheduleCounter = <Value>(
  toValue: (name: ScheduleCounter) => Value,
): Record<ScheduleCounter, Value> => eachOf(SCHEDULE_COUNTERS, toValue);

/** "missed-ticks" for "missedTicks". */
export const scheduleCounterWord = (name: ScheduleCounter): string => wordOf(name);
