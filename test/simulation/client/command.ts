// Commands of a simulated client: their bytes, their meaning, and what is known of their reply.

import type { SettingName, SettingValues } from "../../../src/schema/setting.ts";
import { fits, type JobChoice } from "../model/job-choice.ts";
import type { Model } from "../model/model.ts";
import { NO_OPTIONS, type PutOptions } from "../model/model-policies.ts";
import type { Order } from "../model/turns/model-turns.ts";
import type { ByIdCommand } from "../witness/command-sink.ts";
import type { ListedRow } from "./list-of-all.ts";
import {
  asShown,
  found,
  inspectJobText,
  inspectTubeText,
  LIST_LIMIT,
  listedJob,
  listedJobs,
  statsJobText,
  statsTubeText,
} from "./model-replies.ts";
import { SETTINGS_DRAWN, settingText } from "./setting-words.ts";

/** Changes of a set-tube: undefined for a setting that it removes. */
export type SettingValueChanges = { readonly [Name in SettingName]?: SettingValues[Name] | undefined };

interface Common {
  readonly bytes: Buffer;
  /** For messages. */
  readonly text: string;
}

/** What a client watches, and how it picks its jobs. */
interface Watching {
  readonly watched: readonly string[];
  readonly order: Order;
}

interface Batch {
  readonly jobsMax: number;
  readonly bytesMax: number;
  readonly tubes: boolean;
  readonly mayAbort: boolean;
  /** How many jobs it waits for, and for how long after the first, in seconds. */
  readonly min?: number;
  readonly linger?: number | undefined;
  /** All its jobs belong to one tube and group. */
  readonly oneGroup?: boolean;
}

export type Command = Common &
  (
    | { readonly kind: "fixed"; readonly reply: string }
    | {
        readonly kind: "put";
        readonly tube: string;
        readonly pri: number;
        readonly delaySeconds: number;
        /** Milliseconds of an extension's delay. */
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
        readonly order: Order;
        /** Undefined for those that take one job. */
        readonly batch: Batch | undefined;
      }
    | { readonly kind: "delete-batch"; readonly ids: readonly number[] }
    | { readonly kind: "touch-all" }
    | { readonly kind: "by-id"; readonly name: ByIdCommand; readonly id: number }
    | { readonly kind: "kick-job"; readonly id: number }
    | { readonly kind: "cancel-job"; readonly id: number }
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
    | { readonly kind: "gather"; readonly form: RegExp }
    /** What it has put is known; nothing tells why it was refused. */
    | { readonly kind: "run"; readonly schedule: string; readonly refusals: RegExp }
    | { readonly kind: "quit" }
  );

const line = (text: string): Buffer => Buffer.from(`${text}\r\n`, "latin1");

const simple = (text: string): Common => ({ text, bytes: line(text) });

const BODY_SIZE_MAX_MARK = "JOB_TOO_BIG\r\n";

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

function optionsText(options: PutOptions): string {
  const { key, keyForMs, untilReserve, ttlMs, group, weight, cost, onDuplicate, batch, after, afterAny } =
    options;
  return [
    key === "" ? "" : ` unique=${key}`,
    keyForMs === 0 ? "" : ` unique-for=${keyForMs / 1000}`,
    untilReserve ? " unique-until=reserve" : "",
    ttlMs === 0 ? "" : ` ttl=${ttlMs / 1000}`,
    group === "" ? "" : ` group=${group}`,
    weight === 1 ? "" : ` weight=${weight}`,
    cost === 1 ? "" : ` cost=${cost}`,
    onDuplicate === "refuse" ? "" : ` on-duplicate=${onDuplicate}`,
    batch === "" ? "" : ` batch=${batch}`,
    after === "" ? "" : ` after${afterAny ? "-any" : ""}=${after}`,
  ].join("");
}

export function setTube(pattern: string, values: SettingValueChanges): Command {
  const words = SETTINGS_DRAWN.filter((name) => name in values).map((name) =>
    settingText(name, values[name]),
  );
  return { ...simple(`set-tube ${pattern} ${words.join(" ")}`), kind: "set", pattern, values };
}

/** Wrong ends of a body in the place of CR LF: some have one of the two in its place. */
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

export function reserve({ watched, order }: Watching, timeoutSeconds: number | undefined): Command {
  const text = timeoutSeconds === undefined ? "reserve" : `reserve-with-timeout ${timeoutSeconds}`;
  const timeoutMs = timeoutSeconds === undefined ? Number.POSITIVE_INFINITY : timeoutSeconds * 1000;
  return { ...simple(text), kind: "reserve", timeoutMs, watched: [...watched], order, batch: undefined };
}

/** Without a timeout for ever; `bytesMax` Infinity for no such option. */
export function reserveBatch(
  { watched, order }: Watching,
  timeoutSeconds: number | undefined,
  batch: Batch,
): Command {
  const options = [
    ...(Number.isFinite(batch.bytesMax) ? [`bytes=${batch.bytesMax}`] : []),
    ...(batch.tubes ? ["tubes=yes"] : []),
    ...(batch.mayAbort ? ["abort=yes"] : []),
    ...(batch.min === undefined ? [] : [`min=${batch.min}`]),
    ...(batch.linger === undefined ? [] : [`linger=${batch.linger}`]),
    ...(batch.oneGroup === true ? ["one-group=yes"] : []),
  ];
  const text = ["reserve-batch", batch.jobsMax, timeoutSeconds ?? -1, ...options].join(" ");
  const timeoutMs = timeoutSeconds === undefined ? Number.POSITIVE_INFINITY : timeoutSeconds * 1000;
  return { ...simple(text), kind: "reserve", timeoutMs, watched: [...watched], order, batch };
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

/** `reason` is a text as on the line. */
export function cancelJob(id: number, reason: string): Command {
  const rest = reason === "" ? "" : ` reason=${reason}`;
  return { ...simple(`cancel-job ${id}${rest}`), kind: "cancel-job", id };
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

/** The tube of the choice does not matter. */
export function listAllJobs(choice: JobChoice, afterId: number, showBytes: number): Command {
  const text = `list-jobs ${choiceText({ ...choice, tube: "*" })} after=${afterId} show=${showBytes}`;
  const rows = (model: Model): ListedRow[] =>
    [...model.jobs.values()].map(asShown).flatMap((job) => {
      const tube = job.tube.name;
      if (job.id <= afterId || !fits(job, { ...choice, tube })) return [];
      return [{ id: job.id, text: listedJob(job, showBytes, { tube }) }];
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
      return found(known === undefined ? undefined : model.queues[first[which]](known));
    },
  };
}

export function statsJob(id: number): Command {
  return { ...simple(`stats-job ${id}`), kind: "read", answer: (model) => statsJobText(model.jobs.get(id)) };
}

export function statsTube(tube: string): Command {
  return { ...simple(`stats-tube ${tube}`), kind: "read", answer: (model) => statsTubeText(model, tube) };
}

/** `ports` is the number of acceptors: sessions are named by their acceptor and connection. */
export function inspectJob(id: number, ports: number): Command {
  return {
    ...simple(`inspect-job ${id}`),
    kind: "read",
    answer: (model) => {
      const job = model.jobs.get(id);
      const flows = job === undefined ? {} : model.flows.rowsOf(job);
      return inspectJobText(job, ports, model.workerName, flows);
    },
  };
}

export function inspectTube(tube: string): Command {
  return { ...simple(`inspect-tube ${tube}`), kind: "read", answer: (model) => inspectTubeText(model, tube) };
}

export function gather(text: "stats" | "list-tubes" | "extensions"): Command {
  return { ...simple(text), kind: "gather", form: /^OK / };
}

export function setSchedule(text: string, body: string, form: RegExp): Command {
  return { text, bytes: Buffer.from(`${text}\r\n${body}\r\n`, "latin1"), kind: "gather", form };
}

/** A command about batches or schedules, which the engines are told about later. */
export function ofBatch(text: string, form: RegExp): Command {
  return { ...simple(text), kind: "gather", form };
}

export function runSchedule(schedule: string): Command {
  const refusals = /^(?:NOT_FOUND|TUBE_FULL|OUT_OF_MEMORY|DRAINING)\r\n$/;
  return { ...simple(`run-schedule ${schedule}`), kind: "run", schedule, refusals };
}

export function quit(): Command {
  return { ...simple("quit"), kind: "quit" };
}
