// Texts about jobs and tubes: rows of lists, failures, options, and what stats and inspections say.

import { BACKSLASH, DELETE, QUOTE, SPACE } from "../../base/ascii.ts";
import { assert } from "../../base/assert.ts";
import { latin1 } from "../../base/bytes.ts";
import type { Engine } from "../../engine/engine.ts";
import type { FinishedJob } from "../../engine/jobs/ends.ts";
import { ExtraFlag, FlowFlag, type JobPage, JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { Tube } from "../../engine/tubes/tube.ts";
import type { TubePolicy } from "../../engine/tubes/tube-settings.ts";
import type { FinishedFacts, JobFacts, JobOptions, JobSaid, Where } from "../../message/control.ts";
import {
  Attribute,
  DeathReason,
  findAttribute,
  metaOf,
  wholeAttribute,
} from "../../protocol/job-attribute.ts";
import { type Failure, readFailures } from "../../protocol/job-failure.ts";
import { FIXED_COUNTERS, JOB_COUNTERS, JobCounter } from "../../schema/job.ts";
import { wordOf } from "../../schema/names.ts";
import { NO_COUNTS, POLICY_COUNT_NAMES } from "../../schema/tube.ts";
import { settingNamed, settingsText } from "./tube-setter.ts";

// Values in the rows that describe jobs: times and texts chosen by clients.

/**
 * beanstalkd reads its clock again for the reply, so a fresh delay of 10 s has 9 left. Here, a
 * batch of messages shares one reading.
 */
const CLOCK_STEP_MS = 0.001;

export const secondsLeft = (untilMs: number, nowMs: number): number =>
  Math.max(0, Math.floor((untilMs - nowMs - CLOCK_STEP_MS) / 1000));

/**
 * Returns an age. An acceptor, which reads its clock for the put line, may be slightly ahead of the
 * shard's turn.
 */
export const ageSeconds = (createdAtMs: number, nowMs: number): number =>
  Math.max(0, Math.floor((nowMs - createdAtMs) / 1000));

/** Returns Latin-1 text as the inside of a plain-ASCII JSON string. */
export function escaped(text: string): string {
  return ESCAPES.test(text)
    ? text.replace(EACH_ESCAPE, (character) => ESCAPED[character.charCodeAt(0)]!)
    : text;
}

/** Characters that plain-ASCII JSON has to escape. */
const ESCAPES = /[^\x20\x21\x23-\x5b\x5d-\x7e]/;
const EACH_ESCAPE = new RegExp(ESCAPES, "g");

const ESCAPED: readonly string[] = Array.from({ length: 256 }, (_, byte) => {
  if (byte === QUOTE || byte === BACKSLASH) return `\\${String.fromCharCode(byte)}`;
  if (byte >= SPACE && byte < DELETE) return String.fromCharCode(byte);
  return `\\u00${byte.toString(16).padStart(2, "0")}`;
});

// The failures of a job as JSON, which is also valid YAML.

/** Maximum bytes of a reason in a list of jobs. */
export const LISTED_REASON_BYTES = 256;

/** Returns the failures of a job, newest first. */
export function failuresOf(engine: Engine, slot: number): readonly Failure[] {
  if (engine.jobs.pageOf(slot).failures === undefined) return [];
  return readFailures(engine.policies.failures.of(slot));
}

const failuresText = (failures: readonly Failure[], nowMs: number): string =>
  `[${failures.map((failure) => failureText(failure, nowMs, failure.reason)).join(",")}]`;

/** Returns the field of a list's row with the last failure, if there is one. */
export function lastFailure(engine: Engine, slot: number, nowMs: number): string {
  const last = failuresOf(engine, slot)[0];
  if (last === undefined) return "";
  return `,"failure":${failureText(last, nowMs, last.reason.slice(0, LISTED_REASON_BYTES))}`;
}

function failureText({ attempt, cause, atMs, worker }: Failure, nowMs: number, reason: string): string {
  const age = ageSeconds(atMs, nowMs);
  return `{"attempt":${attempt},"cause":"${cause}","age":${age},"worker":"${escaped(worker)}","reason":"${escaped(reason)}"}`;
}

// The end of a job, as `finished-jobs` tells it.

const FINISHED_TEXTS = ["worker", "unique", "group", "note", "reason"] as const;

/** Returns the facts about the end of a job, without those that have no value. */
export function finishedFacts(job: FinishedJob, nowMs: number): FinishedFacts {
  const ago = (atMs: number): number => Math.max(0, Math.floor(nowMs - atMs)) / 1000;
  const { id, state, attempts } = job;
  assert(state !== "open", "a job that is kept has ended");
  const start = job.startedAtMs < 0 ? {} : { start: ago(job.startedAtMs) };
  const texts = FINISHED_TEXTS.filter((name) => job[name] !== "").map((name) => [name, job[name]]);
  return {
    ...{ id, state, put: ago(job.putAtMs), ...start, end: ago(job.endedAtMs), attempts },
    ...Object.fromEntries(texts),
  };
}

/** Returns the facts as plain-ASCII JSON. */
export const finishedRow = (job: FinishedJob, nowMs: number): string =>
  JSON.stringify(finishedFacts(job, nowMs)).replace(
    /[\x7f-\xff]/g,
    (byte) => `\\u00${byte.charCodeAt(0).toString(16)}`,
  );

// The options that a job was put with: its expiry, unique key, group, weight and cost.

/** Returns the options, or undefined for a job without any. */
export function jobOptions(engine: Engine, slot: number, nowMs: number): JobOptions | undefined {
  const { extras } = engine.jobs.pageOf(slot);
  if (extras === undefined) return undefined;
  const expiresAtMs = extras.expiresAtMs[rowOf(slot)]!;
  const fixed = engine.policies.attributes.fixedAttributes(slot);
  if (expiresAtMs === 0 && fixed.length === 0) return undefined;
  return {
    expiresIn: expiresAtMs === 0 ? undefined : Math.max(0, expiresAtMs - nowMs) / 1000,
    unique: textOf(fixed, Attribute.UniqueKey),
    group: textOf(fixed, Attribute.Group),
    weight: wholeAttribute(fixed, fixed.length, Attribute.Weight),
    cost: wholeAttribute(fixed, fixed.length, Attribute.Cost),
    meta: metaOf(fixed),
  };
}

export function hasKeys(engine: Engine, slot: number, { group, unique }: Where): boolean {
  if (group === undefined && unique === undefined) return true;
  if (engine.jobs.pageOf(slot).extras === undefined) return false;
  const fixed = engine.policies.attributes.fixedAttributes(slot);
  return (
    (group === undefined || textOf(fixed, Attribute.Group) === group) &&
    (unique === undefined || textOf(fixed, Attribute.UniqueKey) === unique)
  );
}

function textOf(fixed: Uint8Array, tag: Attribute): string | undefined {
  const at = findAttribute(fixed, 0, fixed.length, tag);
  return at < 0 ? undefined : latin1(fixed, at, at + fixed[at - 1]!);
}

// The texts of stats-job, stats-tube, inspect-job and inspect-tube, quoted as the chosen
// compatibility requires.

export const STATE_NAMES: Readonly<Record<number, string>> = {
  [JobState.Ready]: "ready",
  [JobState.Reserved]: "reserved",
  [JobState.Buried]: "buried",
  [JobState.Delayed]: "delayed",
  // To clients, it looks as if another client held it.
  [JobState.Moving]: "reserved",
};
/**
 * Returns whether the deadline of a job is the end of its state. The deadline of a job that waits
 * for a batch is not.
 */
export function isTimed(engine: Engine, slot: number): boolean {
  const state = engine.jobs.pageOf(slot).state[rowOf(slot)]!;
  return state === JobState.Reserved || (state === JobState.Delayed && !engine.batches.waits(slot));
}

/** Returns the YAML of stats-job, without the framing of its reply. */
export function statsJobText(
  engine: Engine,
  slot: number,
  nowMs: number,
  quoteNames: boolean,
  file: number,
): string {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const state = page.state[row]!;
  assert(state !== JobState.Free, "only an existing job is described");
  const timed = isTimed(engine, slot);
  const name = engine.tubeOf(slot).name;
  return `---
id: ${page.id[row]}
tube: ${quoteNames ? `"${name}"` : name}
state: ${STATE_NAMES[state]}
pri: ${page.pri[row]}
age: ${ageSeconds(page.createdAtMs[row]!, nowMs)}
delay: ${page.delaySeconds[row]}
ttr: ${page.ttrSeconds[row]}
time-left: ${timed ? secondsLeft(page.deadlineAtMs[row]!, nowMs) : 0}
file: ${file}
${counterRows(page, row, 0, FIXED_COUNTERS)}`;
}

/** Returns the YAML of stats-tube, without the framing of its reply. */
export function statsTubeText(engine: Engine, tube: Tube, nowMs: number, quoteNames: boolean): string {
  assert(tube.urgentJobs <= tube.jobsIn(JobState.Ready), "urgent jobs are among the ready ones");
  return `---
name: ${quoteNames ? `"${tube.name}"` : tube.name}
current-jobs-urgent: ${tube.urgentJobs}
current-jobs-ready: ${tube.jobsIn(JobState.Ready)}
current-jobs-reserved: ${tube.jobsIn(JobState.Reserved) + tube.movingJobs}
current-jobs-delayed: ${tube.jobsIn(JobState.Delayed)}
current-jobs-buried: ${tube.jobsIn(JobState.Buried)}
total-jobs: ${tube.totalJobs}
current-using: ${tube.using}
current-watching: ${tube.watching}
current-waiting: ${engine.waitingOn(tube)}
cmd-delete: ${tube.deletes}
cmd-pause-tube: ${tube.pauses}
pause: ${tube.pauseSeconds}
pause-time-left: ${tube.paused ? secondsLeft(tube.pauseTimer.atMs, nowMs) : 0}
`;
}

/**
 * Returns the lines that inspect-job adds to stats-job. `holder` names the holder, or says that
 * there is none; `worker` is the name that it gave itself, or its address. Whoever may not see the
 * job's texts gets the options and failures without them.
 */
export function inspectJobText(
  engine: Engine,
  slot: number,
  nowMs: number,
  { holder, worker, options, failures, ...said }: InspectedJob,
): string {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const leftMs = isTimed(engine, slot) ? Math.max(0, Math.floor(page.deadlineAtMs[row]! - nowMs)) : 0;
  return `bytes: ${page.bodyBytes[row]}
time-left-ms: ${leftMs}
${policyRows(engine, slot, nowMs, options)}holder: ${holder}
worker: ${worker === undefined ? "none" : quoted(worker)}
${counterRows(page, row, FIXED_COUNTERS)}failures: ${failuresText(failures, nowMs)}
${flowRows(engine, slot)}${saidRows(said)}`;
}

/** Returns a line for each counter of a job from one position to another. */
function counterRows(page: JobPage, row: number, from: number, to?: number): string {
  const names = JOB_COUNTERS.slice(from, to);
  return names.map((name) => `${name}: ${page.count(row, JobCounter[name])}\n`).join("");
}

interface InspectedJob extends JobSaid {
  readonly holder: string;
  readonly worker: string | undefined;
  readonly options: JobOptions | undefined;
  readonly failures: readonly Failure[];
}

/** Returns what is said of a job while a client holds it. */
export function saidOf(engine: Engine, slot: number): JobSaid {
  const { progress, note, cancelled } = engine.policies.notes.of(slot);
  return {
    progress,
    note: latin1(note, 0, note.length),
    cancelled: cancelled === undefined ? undefined : latin1(cancelled, 0, cancelled.length),
  };
}

/** Returns names and values, as JSON, of what there is of that. */
function valuesSaid({ progress, note, cancelled }: JobSaid): [name: string, value: string][] {
  const values: [string, string][] = [];
  if (progress !== undefined) values.push(["progress", `${progress}`]);
  if (note !== "") values.push(["note", quoted(note)]);
  if (cancelled !== undefined) values.push(["cancelled", quoted(cancelled)]);
  return values;
}

const saidRows = (said: JobSaid): string =>
  valuesSaid(said)
    .map(([name, value]) => `${name}: ${value}\n`)
    .join("");

/** Returns the fields of a list's row about that. */
export const saidFields = (engine: Engine, slot: number): string =>
  valuesSaid(saidOf(engine, slot))
    .map(([name, value]) => `,"${name}":${value}`)
    .join("");

type JobBatches = Pick<JobFacts, "batch" | "waitsFor">;

/** Returns the batch that a job belongs to, and the one that it waits for. */
export function batchesOf(engine: Engine, slot: number): JobBatches {
  const flows = engine.jobs.pageOf(slot).extras?.flows;
  if (flows === undefined) return { batch: undefined, waitsFor: undefined };
  const row = rowOf(slot);
  const awaited = engine.batches.awaitedBy(slot);
  const isAny = (flows.flags[row]! & FlowFlag.Any) !== 0;
  return {
    batch: engine.batches.of(flows.batch[row]!)?.name,
    waitsFor: awaited === undefined ? undefined : { name: awaited.name, isAny },
  };
}

/** Returns the lines about the batches of a job, if it has any. */
function flowRows(engine: Engine, slot: number): string {
  const { batch, waitsFor } = batchesOf(engine, slot);
  const member = batch === undefined ? "" : `batch: "${batch}"\n`;
  if (waitsFor === undefined) return member;
  return `${member}waits-for: "${waitsFor.name}"\nwaits-for-any: ${waitsFor.isAny ? "yes" : "no"}\n`;
}

const NO_OPTIONS: JobOptions = {
  expiresIn: undefined,
  unique: undefined,
  group: undefined,
  weight: 1,
  cost: 1,
  meta: [],
};

const REASONS: Readonly<Record<number, string>> = {
  [DeathReason.None]: "none",
  [DeathReason.Attempts]: "attempts",
  [DeathReason.Expired]: "expired",
};

/** Returns the lines about a job's options and its tube's policies. */
function policyRows(
  engine: Engine,
  slot: number,
  nowMs: number,
  { unique, group, weight, cost, meta }: JobOptions = NO_OPTIONS,
): string {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const { extras } = page;
  const expiresAtMs = extras?.expiresAtMs[row] ?? 0;
  const expiresIn = expiresAtMs === 0 ? "never" : String(Math.max(0, Math.floor(expiresAtMs - nowMs)) / 1000);
  const attempts = page.count(row, JobCounter.reserves) - (extras?.attemptsBase[row] ?? 0);
  assert(attempts >= 0, "the number of attempts is not negative");
  return `attempts: ${attempts}
expires-in: ${expiresIn}
unique: ${quotedOrNone(unique)}
group: ${quotedOrNone(group)}
weight: ${weight}
${cost === 1 ? "" : `cost: ${cost}\n`}${metaRow(meta)}origin: ${engine.policies.attributes.originOf(slot) || "none"}
reason: ${REASONS[(extras?.flags[row] ?? 0) & ExtraFlag.Reason]}
`;
}

/** Returns the line `meta`, a list in JSON, for a job that was put with it. */
const metaRow = (pairs: readonly string[]): string =>
  pairs.length === 0 ? "" : `meta: [${pairs.map(quoted).join(", ")}]\n`;

/** Returns a text chosen by a client, quoted for any parser of YAML or JSON. */
const quoted = (text: string): string => `"${escaped(text)}"`;

const quotedOrNone = (text: string | undefined): string => (text === undefined ? "none" : quoted(text));

/**
 * Returns the YAML of inspect-tube for a tube that does not exist but would have settings, without
 * the framing of its reply.
 */
export function inspectSettingsText(policy: TubePolicy): string {
  return `---
bytes: 0
next-age: 0
${countRows()}${settingRows(policy)}`;
}

/** Returns the lines with the counts of a tube, zeros without one. */
function countRows(tube?: Tube): string {
  const { size: groups = 0, blocked = 0 } = tube?.groups ?? {};
  assert(blocked <= groups, "blocked groups are among the groups");
  const counts = tube?.countsIfAny ?? NO_COUNTS;
  return `groups: ${groups}
groups-blocked: ${blocked}
${POLICY_COUNT_NAMES.map((name) => `${wordOf(name)}: ${counts[name]}\n`).join("")}disconnects: ${tube?.disconnects ?? 0}
`;
}

/**
 * Returns the line with the number of jobs that may be reserved now, if the tube has a rate limit.
 */
function tokenRow({ limiter }: Tube, nowMs: number): string {
  const tokens = limiter?.tokens(nowMs) ?? Number.POSITIVE_INFINITY;
  return tokens === Number.POSITIVE_INFINITY ? "" : `tokens: ${Math.max(0, Math.floor(tokens))}\n`;
}

/** Returns a line for each setting in effect, with the pattern that it comes from. */
function settingRows(policy: TubePolicy | undefined): string {
  if (policy === undefined) return "";
  let rows = "";
  for (const option of settingsText(policy, (name) => policy.sources.has(name)).split(" ")) {
    const [name, value] = option.split("=", 2);
    rows += `${name}: ${value}\n${name}-from: ${quoted(policy.sources.get(settingNamed(name!)) ?? "")}\n`;
  }
  return rows;
}

/** Returns the YAML of inspect-tube, without the framing of its reply. */
export function inspectTubeText(engine: Engine, tube: Tube, nowMs: number): string {
  const next = tube.jobsIn(JobState.Ready) === 0 ? undefined : tube.ready.best;
  assert(next !== NO_SLOT, "a tube with ready jobs has a best one");
  const createdAtMs = next === undefined ? nowMs : engine.jobs.pageOf(next).createdAtMs[rowOf(next)]!;
  return `---
bytes: ${tube.bytes}
next-age: ${ageSeconds(createdAtMs, nowMs)}
${countRows(tube)}${tokenRow(tube, nowMs)}${settingRows(tube.policy)}`;
}
