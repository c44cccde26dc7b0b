// Batches and schedules in the list "Needs attention": those that are stuck until a person acts,
// and those that missed a run.

import type { BatchSign, ScheduleSign, ScheduleTrouble } from "../../../message/control.ts";
import type { KnownSigns } from "../../queue/last-known.ts";
import { textOf } from "../client-text.ts";
import { EXACT, type Found, inWords, listed } from "./attention-entry.ts";

export function addFlows(found: Found[], { batches, schedules }: KnownSigns): void {
  for (const rule of BATCH_RULES) addBatches(found, rule, batches);
  for (const rule of SCHEDULE_RULES) addSchedules(found, rule, schedules[rule.trouble]);
}

const counted = (count: number, one: string, many: string): string =>
  `${EXACT.format(count)} ${count === 1 ? one : many}`;

interface BatchRule {
  readonly isMeant: (failed: number, buried: number, waiting: number) => boolean;
  readonly text: (failed: number, buried: number, waiting: number) => string;
  readonly others: readonly [one: string, many: string];
  readonly todo: string;
  readonly weight: number;
}

const BATCH_RULES: readonly BatchRule[] = [
  {
    isMeant: (_failed, buried) => buried > 0,
    text: (_failed, buried) =>
      `${counted(buried, "member is", "members are")} buried, so the batch doesn't end`,
    others: ["more batch has buried members", "more batches have buried members"],
    todo: "Find out why. When the cause is fixed, kick them; or delete them, and they count as failed.",
    weight: 3e6,
  },
  {
    isMeant: (failed, buried, waiting) => failed > 0 && buried === 0 && waiting > 0,
    text: (failed, _buried, waiting) =>
      `${counted(failed, "member has", "members have")} failed, and ${counted(waiting, "job waits", "jobs wait")} for the batch`,
    others: [
      "more batch has failed members, and jobs that wait for it",
      "more batches have failed members, and jobs that wait for them",
    ],
    todo: "Find out why. When the batch ends, jobs that wait for its success will be buried.",
    weight: 2e6,
  },
];

function addBatches(
  found: Found[],
  { isMeant, text, others: [one, many], todo, weight }: BatchRule,
  batches: readonly BatchSign[],
): void {
  const meant = batches.filter(([, , ...counts]) => isMeant(...counts));
  const named = listed(meant);
  for (const [, name, ...counts] of named)
    found.push({
      ...{ level: "warn", tube: null, about: `batch ${name}`, page: `#/batches/${encodeURIComponent(name)}` },
      ...{ text: text(...counts), todo, weight },
    });
  const rest = meant.length - named.length;
  if (rest > 0)
    found.push({
      ...{ level: "warn", tube: null, page: "#/batches?state=unfinished", todo: "" },
      ...{ text: counted(rest, one, many), weight: weight - 1 },
    });
}

interface ScheduleRule {
  readonly trouble: ScheduleTrouble;
  readonly text: (schedule: ScheduleSign) => string;
  readonly others: readonly [one: string, many: string];
  readonly todo: string;
  /** The filter of the page of schedules. */
  readonly state: string;
  readonly weight: number;
}

const REFUSALS: Readonly<Record<string, string>> = {
  TUBE_FULL: "its tube is full",
  OUT_OF_MEMORY: "the memory is full",
  LOG_FULL: "the log is full",
  DRAINING: "the server drains",
};

const SCHEDULE_RULES: readonly ScheduleRule[] = [
  {
    trouble: "refused",
    text: ({ lateSeconds, refusal }) =>
      `late by ${inWords(lateSeconds)}: ${REFUSALS[refusal] ?? "its job is refused"}`,
    others: ["more schedule is late", "more schedules are late"],
    todo: "The server tries again each second: make room for its job.",
    state: "late",
    weight: 5e6,
  },
  {
    trouble: "missing",
    text: ({ missed }) =>
      missed === 1 ? "its last run was missed" : `its last ${EXACT.format(missed)} runs were missed`,
    others: ["more schedule has missed its last run", "more schedules have missed their last run"],
    todo: "If the job can't wait for the next run, put it with Run now on its page.",
    state: "missed",
    weight: 4e6,
  },
  {
    trouble: "paused",
    text: () => "paused, so it puts no jobs",
    others: ["more schedule is paused", "more schedules are paused"],
    todo: "Resume it on its page; runs until then are skipped.",
    state: "paused",
    weight: 1e5,
  },
];

function addSchedules(
  found: Found[],
  { text, others: [one, many], todo, state, weight }: ScheduleRule,
  { count, first }: KnownSigns["schedules"][ScheduleTrouble],
): void {
  const named = listed(first, count);
  for (const schedule of named) {
    const name = textOf(schedule.name);
    found.push({
      ...{
        level: "warn",
        tube: null,
        about: `schedule ${name}`,
        page: `#/schedules/${encodeURIComponent(name)}`,
      },
      ...{ text: text(schedule), todo, weight },
    });
  }
  const rest = count - named.length;
  if (rest > 0)
    found.push({
      ...{ level: "warn", tube: null, page: `#/schedules?state=${state}`, todo: "" },
      ...{ text: counted(rest, one, many), weight: weight - 1 },
    });
}
