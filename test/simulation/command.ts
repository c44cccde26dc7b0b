// Commands of a simulated client: their bytes, their meaning, and what is known of their reply.

import type { SettingName, SettingValues } from "../../src/engine/tubes/tube-settings.ts";
import type { Failure } from "../../src/protocol/job-failure.ts";
import { chosenJobs, fits, type JobChoice } from "./model/job-choice.ts";
import type { ListedRow } from "./model/list-of-all.ts";
import type { Model, ModelJob } from "./model/model.ts";
import { NO_OPTIONS, type PutOptions } from "./model/model-policies.ts";
import type { ByIdCommand } from "./witness.ts";

/** What a set-tube changes: undefined for what it takes away. */
export type SettingValueChanges = { readonly [Name in SettingName]?: SettingValues[Name] | undefined };

interface Common {
  readonly bytes: Buffer;
  /** For messages. */
  readonly text: string;
}

export interface Batch {
  readonly jobsMax: number;
  readonly bytesMax: number;
  readonly tubes: boolean;
  readonly mayAbort: boolean;
}

export type Command = Common &
  (
    | { readonly kind: "fixed"; readonly reply: string }
    | {
        readonly kind: "put";
        readonly tube: string;
        readonly pri: number;
        readonly delaySeconds: number;
        /** What an extension's delay has besides. */
        readonly delayMillis: number;
        readonly ttrSeconds: number;
        readonly body: string;
        readonly options: PutOptions;
      }
    | { readonly kind: "set"; readonly pattern: string; readonly values: SettingValueChanges }
    | {
        readonly kind: "reserve";
        readonly timeoutMs: number;
        readonly watched: readonly string[];
        /** Undefined for those that take one job. */
        readonly batch: Batch | undefined;
      }
    | { readonly kind: "delete-batch"; readonly ids: readonly number[] }
    | { readonly kind: "touch-all" }
    | { readonly kind: "by-id"; readonly name: ByIdCommand; readonly id: number }
    | { readonly kind: "kick-job"; readonly id: number }
    | { readonly kind: "kick"; readonly tube: string; readonly bound: number }
    | { readonly kind: "pause"; readonly tube: string; readonly seconds: number }
    | { readonly kind: "clear"; readonly jobs: JobChoice }
    | { readonly kind: "move"; readonly tube: string; readonly target: string }
    /** Put together of all shards. */
    | {
        readonly kind: "list-all";
        readonly afterId: number;
        readonly limit: number;
        readonly rows: (model: Model) => ListedRow[];
      }
    /**
     * Changes nothing; the reply is what the model says at some moment while the command is under
     * way.
     */
    | { readonly kind: "read"; readonly answer: (model: Model) => string }
    /** Put together of all shards, at no single moment: only its form is known. */
    | { readonly kind: "gather" }
    | { readonly kind: "quit" }
  );

export type CommandKind = Command["kind"];

const line = (text: string): Buffer => Buffer.from(`${text}\r\n`, "latin1");
const simple = (text: string): Common => ({ text, bytes: line(text) });

export const BODY_SIZE_MAX_MARK = "JOB_TOO_BIG\r\n";

export function fixed(text: string, reply: string): Command {
  return { ...simple(text), kind: "fixed", reply };
}

export function put(
  tube: string,
  pri: number,
  delaySeconds: number,
  ttrSeconds: number,
  body: string,
): Command {
  const text = `put ${pri} ${delaySeconds} ${ttrSeconds} ${body.length}`;
  const bytes = Buffer.from(`${text}\r\n${body}\r\n`, "latin1");
  const options = NO_OPTIONS;
  return { text, bytes, kind: "put", tube, pri, delaySeconds, delayMillis: 0, ttrSeconds, body, options };
}

/** `delayMs` with up to three decimals on the line. */
export function putInTube(
  tube: string,
  pri: number,
  delayMs: number,
  ttrSeconds: number,
  body: string,
  options: PutOptions = NO_OPTIONS,
): Command {
  const [delaySeconds, delayMillis] = [Math.floor(delayMs / 1000), delayMs % 1000];
  const numbers = `${pri} ${delayMs / 1000} ${ttrSeconds} ${body.length}`;
  const text = `put-in-tube ${tube} ${numbers}${optionsText(options)}`;
  const bytes = Buffer.from(`${text}\r\n${body}\r\n`, "latin1");
  return { text, bytes, kind: "put", tube, pri, delaySeconds, delayMillis, ttrSeconds, body, options };
}

function optionsText({ key, keyForMs, untilReserve, ttlMs, group, weight }: PutOptions): string {
  return [
    key === "" ? "" : ` unique=${key}`,
    keyForMs === 0 ? "" : ` unique-for=${keyForMs / 1000}`,
    untilReserve ? " unique-until=reserve" : "",
    ttlMs === 0 ? "" : ` ttl=${ttlMs / 1000}`,
    group === "" ? "" : ` group=${group}`,
    weight === 1 ? "" : ` weight=${weight}`,
  ].join("");
}

const seconds = (ms: number): string => String(ms / 1000);

/** What can be set, by its word, in the order in which inspect-tube tells it. */
const SETTINGS = {
  maxAttempts: { word: "max-attempts", write: String },
  deadLetter: { word: "dead-letter", write: String },
  backoffMs: { word: "backoff", write: seconds },
  ttlMs: { word: "ttl", write: seconds },
  expireBuries: { word: "expire", write: (buries: boolean) => (buries ? "bury" : "delete") },
  maxJobs: { word: "max-jobs", write: String },
  maxBytes: { word: "max-bytes", write: String },
  maxReserved: { word: "max-reserved", write: String },
  rate: { word: "rate", write: String },
  burst: { word: "burst", write: String },
  groupMaxReserved: { word: "group-max-reserved", write: String },
} as const;
type SettingDrawn = keyof typeof SETTINGS;
const SETTINGS_DRAWN = Object.keys(SETTINGS) as SettingDrawn[];

function settingText(name: SettingDrawn, value: SettingValues[SettingName] | undefined): string {
  const write = SETTINGS[name].write as (value: unknown) => string;
  return `${SETTINGS[name].word}=${value === undefined ? "" : write(value)}`;
}

export function setTube(pattern: string, values: SettingValueChanges): Command {
  const words = SETTINGS_DRAWN.filter((name) => name in values).map((name) =>
    settingText(name, values[name]),
  );
  return { ...simple(`set-tube ${pattern} ${words.join(" ")}`), kind: "set", pattern, values };
}

/**
 * What may stand behind a body in the place of CR LF: also with one of the two where it belongs.
 */
const WRONG_ENDS = ["!!", "x\n", "\r!", "\n\r", "\n\n", "\r\r"] as const;

/** A put whose body does not end where it should. */
export function badPut(body: string): Command {
  const text = `put 0 0 1 ${body.length}`;
  const end = WRONG_ENDS[body.length % WRONG_ENDS.length]!;
  const bytes = Buffer.from(`${text}\r\n${body}${end}`, "latin1");
  return { text: `${text} (without CR LF)`, bytes, kind: "fixed", reply: "EXPECTED_CRLF\r\n" };
}

export function tooBigPut(bodyBytes: number): Command {
  const text = `put 0 0 1 ${bodyBytes}`;
  const bytes = Buffer.from(`${text}\r\n${"x".repeat(bodyBytes)}\r\n`, "latin1");
  return { text, bytes, kind: "fixed", reply: BODY_SIZE_MAX_MARK };
}

/** A put with an unknown option: the server drops its body. */
export function wrongOption(tube: string, body: string): Command {
  const text = `put-in-tube ${tube} 0 0 1 ${body.length} nope=1`;
  const bytes = Buffer.from(`${text}\r\n${body}\r\n`, "latin1");
  return { text, bytes, kind: "fixed", reply: "UNKNOWN_OPTION nope\r\n" };
}

export function reserve(watched: readonly string[], timeoutSeconds: number | undefined): Command {
  const text = timeoutSeconds === undefined ? "reserve" : `reserve-with-timeout ${timeoutSeconds}`;
  const timeoutMs = timeoutSeconds === undefined ? Number.POSITIVE_INFINITY : timeoutSeconds * 1000;
  return { ...simple(text), kind: "reserve", timeoutMs, watched: [...watched], batch: undefined };
}

/** Without a timeout for ever; `bytesMax` Infinity for no such option. */
export function reserveBatch(
  watched: readonly string[],
  timeoutSeconds: number | undefined,
  batch: Batch,
): Command {
  const options = [
    ...(Number.isFinite(batch.bytesMax) ? [`bytes=${batch.bytesMax}`] : []),
    ...(batch.tubes ? ["tubes=yes"] : []),
    ...(batch.mayAbort ? ["abort=yes"] : []),
  ];
  const text = ["reserve-batch", batch.jobsMax, timeoutSeconds ?? -1, ...options].join(" ");
  const timeoutMs = timeoutSeconds === undefined ? Number.POSITIVE_INFINITY : timeoutSeconds * 1000;
  return { ...simple(text), kind: "reserve", timeoutMs, watched: [...watched], batch };
}

export function deleteBatch(ids: readonly number[]): Command {
  return { ...simple(`delete-batch ${ids.join(" ")}`), kind: "delete-batch", ids };
}

export function touchAll(): Command {
  return { ...simple("touch-all"), kind: "touch-all" };
}

export function byId(name: ByIdCommand, id: number, rest = ""): Command {
  return { ...simple(`${name} ${id}${rest}`), kind: "by-id", name, id };
}

export function kickJob(id: number): Command {
  return { ...simple(`kick-job ${id}`), kind: "kick-job", id };
}

export function kick(tube: string, bound: number): Command {
  return { ...simple(`kick ${bound}`), kind: "kick", tube, bound };
}

export function pause(tube: string, seconds: number): Command {
  return { ...simple(`pause-tube ${tube} ${seconds}`), kind: "pause", tube, seconds };
}

const choiceText = ({ tube, states, contains, group, limit }: JobChoice): string =>
  [
    `${tube} state=${states.join(",")}`,
    ...(contains === undefined ? [] : [`contains=${contains}`]),
    ...(group === undefined ? [] : [`group=${group}`]),
    ...(limit === undefined ? [] : [`limit=${limit}`]),
  ].join(" ");

export function clearTube(jobs: JobChoice): Command {
  return { ...simple(`clear-tube ${choiceText(jobs)}`), kind: "clear", jobs };
}

/** Jobs of the choice go to another tube, with `*` dead ones to where they died. */
export function moveJobs(jobs: JobChoice, target: string, asReady: boolean): Command {
  const { tube, states, contains, group, limit } = jobs;
  const options = [
    ` state=${states.join(",")}`,
    contains === undefined ? "" : ` contains=${contains}`,
    group === undefined ? "" : ` group=${group}`,
    asReady ? " as=ready" : "",
    limit === undefined ? "" : ` limit=${limit}`,
  ];
  return { ...simple(`move-jobs ${tube} ${target}${options.join("")}`), kind: "move", tube, target };
}

export function listJobs(jobs: JobChoice, afterId: number, showBytes: number): Command {
  const text = `list-jobs ${choiceText(jobs)} after=${afterId} show=${showBytes}`;
  return { ...simple(text), kind: "read", answer: (model) => listedJobs(model, jobs, afterId, showBytes) };
}

/** What `list-jobs` lists at most without `limit`. */
const LIST_LIMIT = 100;

/** The tube of the choice does not matter. */
export function listAllJobs(choice: JobChoice, afterId: number, showBytes: number): Command {
  const text = `list-jobs ${choiceText({ ...choice, tube: "*" })} after=${afterId} show=${showBytes}`;
  const rows = (model: Model): ListedRow[] =>
    [...model.jobs.values()].map(asShown).flatMap((job) => {
      const tube = job.tube.name;
      if (job.id <= afterId || !fits(job, { ...choice, tube })) return [];
      return [{ id: job.id, tube, text: listedJob(job, showBytes, { tube }) }];
    });
  return { ...simple(text), kind: "list-all", afterId, limit: choice.limit ?? LIST_LIMIT, rows };
}

export function peek(id: number): Command {
  return { ...simple(`peek ${id}`), kind: "read", answer: (model) => found(model.jobs.get(id)) };
}

export function peekOf(tube: string, which: "ready" | "delayed" | "buried"): Command {
  const first = { ready: "firstReady", delayed: "firstDelayed", buried: "firstBuried" } as const;
  return {
    ...simple(`peek-${which}`),
    kind: "read",
    // A tube in use exists at the latest when the peek is executed.
    answer: (model) => {
      const known = model.tubes.get(tube);
      return found(known === undefined ? undefined : model[first[which]](known));
    },
  };
}

export function statsJob(id: number): Command {
  return { ...simple(`stats-job ${id}`), kind: "read", answer: (model) => statsJobText(model.jobs.get(id)) };
}

export function statsTube(tube: string): Command {
  return { ...simple(`stats-tube ${tube}`), kind: "read", answer: (model) => statsTubeText(model, tube) };
}

/** Sessions are named by their acceptor, one of `ports`, and connection. */
export const sessionName = (session: number, ports: number): string =>
  `${session % ports}.${Math.floor(session / ports)}`;

export function inspectJob(id: number, ports: number): Command {
  return {
    ...simple(`inspect-job ${id}`),
    kind: "read",
    answer: (model) => inspectJobText(model.jobs.get(id), ports),
  };
}

export function inspectTube(tube: string): Command {
  return { ...simple(`inspect-tube ${tube}`), kind: "read", answer: (model) => inspectTubeText(model, tube) };
}

export function gather(text: "stats" | "list-tubes" | "extensions"): Command {
  return { ...simple(text), kind: "gather" };
}

export function quit(): Command {
  return { ...simple("quit"), kind: "quit" };
}

/** `tube` is told if there is one. */
export const reserved = ({ id, body }: ModelJob, tube?: string): string =>
  `RESERVED ${id} ${body.length}${tube === undefined ? "" : ` ${tube}`}\r\n${body}\r\n`;

function found(job: ModelJob | undefined): string {
  return job === undefined ? "NOT_FOUND\r\n" : `FOUND ${job.id} ${job.body.length}\r\n${job.body}\r\n`;
}

const ok = (rows: Record<string, string | number>): string =>
  Object.entries(rows)
    .map(([key, value]) => `${key}: ${value}`)
    .join("\n");

/**
 * A reply as it is compared: of statistics the rows that the model knows, without those that depend
 * on the clock.
 */
export function comparable(reply: string): string {
  if (!reply.startsWith("OK ")) return reply;
  return reply
    .slice(reply.indexOf("---\n") + 4, -2)
    .split("\n")
    .map((row) => row.replace(/"(?:age|time-left)":\d+,/g, ""))
    .filter(
      (row) =>
        row !== "" &&
        !/^(?:(?:next-)?age|time-left(?:-ms)?|file|pause-time-left|current-waiting|tokens|expires-in(?=: \d)): /.test(
          row,
        ),
    )
    .join("\n");
}

function statsJobText(job: ModelJob | undefined): string {
  if (job === undefined) return "NOT_FOUND\r\n";
  return ok({
    id: job.id,
    tube: job.tube.name,
    state: job.state === "moving" ? "reserved" : job.state,
    pri: job.pri,
    delay: job.delaySeconds,
    ttr: job.ttrSeconds,
    reserves: job.reserves,
    timeouts: job.timeouts,
    releases: job.releases,
    buries: job.buries,
    kicks: job.kicks,
  });
}

function inspectJobText(job: ModelJob | undefined, ports: number): string {
  if (job === undefined) return "NOT_FOUND\r\n";
  const { body, holder } = job;
  const name = holder === undefined ? "none" : sessionName(holder.index, ports);
  const rows = { bytes: body.length, ...policyRows(job), holder: name };
  return `${statsJobText(job)}\n${ok(rows)}\nfailures: ${JSON.stringify(job.policy.failures.map(shownFailure))}`;
}

const shownFailure = ({ attempt, cause, worker, reason }: Failure): Omit<Failure, "atMs"> => ({
  ...{ attempt, cause, worker, reason },
});

const listedFailure = (failure: Failure): Omit<Failure, "atMs"> =>
  shownFailure({ ...failure, reason: failure.reason.slice(0, 256) });

function policyRows({ reserves, policy }: ModelJob): Record<string, string | number> {
  const { attemptsBase, expiresAtMs, key, group, weight, origin, reason } = policy;
  return {
    attempts: reserves - attemptsBase,
    ...(expiresAtMs === 0 ? { "expires-in": "never" } : {}),
    unique: key === "" ? "none" : `"${key}"`,
    group: group === "" ? "none" : `"${group}"`,
    weight,
    origin: origin || "none",
    reason,
  };
}

const NO_COUNTS = { duplicates: 0, rejected: 0, expired: 0, dead: 0 };

function inspectTubeText(model: Model, name: string): string {
  const tube = model.tubes.get(name);
  const { values, sources } = tube?.resolved ?? model.settings[model.tubeShard(name)]!.resolve(name);
  const set = SETTINGS_DRAWN.filter((each) => sources[each] !== undefined);
  if (tube === undefined && set.length === 0) return "NOT_FOUND\r\n";
  const jobs = tube === undefined ? [] : model.jobsOf(tube);
  const { groups, counts = NO_COUNTS, movedIn = 0, movedOut = 0 } = tube ?? {};
  const rows = {
    bytes: jobs.reduce((bytes, { body }) => bytes + body.length, 0),
    groups: groups?.count ?? 0,
    "groups-blocked": groups?.blocked ?? 0,
    ...counts,
    "moved-in": movedIn,
    "moved-out": movedOut,
  };
  const settings = set.flatMap((each) => {
    const [word, value] = settingText(each, values[each]).split("=") as [string, string];
    return [`${word}: ${value}`, `${word}-from: "${sources[each]}"`];
  });
  return [ok(rows), ...settings].join("\n");
}

function statsTubeText(model: Model, name: string): string {
  const tube = model.tubes.get(name);
  if (tube === undefined) return "NOT_FOUND\r\n";
  const jobs = model.jobsOf(tube);
  const count = (state: string): number => jobs.filter((job) => job.state === state).length;
  return ok({
    name,
    "current-jobs-urgent": jobs.filter((job) => job.state === "ready" && job.pri < 1024).length,
    "current-jobs-ready": count("ready"),
    "current-jobs-reserved": count("reserved") + count("moving"),
    "current-jobs-delayed": count("delayed"),
    "current-jobs-buried": count("buried"),
    "total-jobs": tube.totalJobs,
    "current-using": tube.users.size,
    "current-watching": tube.watchers.size,
    "cmd-delete": tube.deletes,
    "cmd-pause-tube": tube.pauses,
    pause: tube.pauseSeconds,
  });
}

function listedJobs(model: Model, jobs: JobChoice, afterId: number, showBytes: number): string {
  const shown = [...model.jobs.values()].map(asShown);
  const after = chosenJobs(shown, { ...jobs, limit: undefined }).filter((job) => job.id > afterId);
  const listed = after.slice(0, jobs.limit ?? LIST_LIMIT);
  const tube = model.tubes.get(jobs.tube);
  const others = [...model.jobs.values()].filter((job) => job.tube.shard === tube?.shard);
  // A list that is full says how to go on, unless there is nothing behind it, of any tube of the
  // shard.
  const last = listed.length < (jobs.limit ?? LIST_LIMIT) ? undefined : listed.at(-1);
  const copies = tube === undefined ? [] : model.copiesOn(tube.shard);
  const next = last === undefined || [...others, ...copies].every(({ id }) => id <= last.id) ? 0 : last.id;
  const rows = listed.map((job) => `- ${listedJob(job, showBytes)}`);
  return [`next: ${next}`, ...(rows.length === 0 ? ["jobs: []"] : ["jobs:", ...rows])].join("\n");
}

/** A job on its way to another shard looks reserved. */
const asShown = (job: ModelJob): ModelJob => (job.state === "moving" ? { ...job, state: "reserved" } : job);

function listedJob(job: ModelJob, showBytes: number, named: { readonly tube?: string } = {}): string {
  const { id, state, pri, delaySeconds, ttrSeconds, reserves, timeouts, releases, buries, kicks, body } = job;
  return JSON.stringify({
    id,
    ...named,
    ...{ state, pri, delay: delaySeconds, ttr: ttrSeconds, reserves, timeouts, releases, buries, kicks },
    bytes: body.length,
    ...(job.policy.failures.length === 0 ? {} : { failure: listedFailure(job.policy.failures[0]!) }),
    ...(showBytes === 0 ? {} : { body: body.slice(0, showBytes) }),
  });
}
