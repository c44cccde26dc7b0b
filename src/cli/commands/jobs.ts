// `jobs`: lists the jobs of one tube or of all tubes.

import type { Command } from "commander";
import { finishedOf, listedJob, listOf, optionsText } from "../../client/command-text.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import { duration, soughtText, states, tube as tubeName, tubeOrAll, whole } from "../argument.ts";
import { ExitCode, printRows, type Row } from "../output.ts";
import { type CommonOptions, newCommand, withWire } from "../run.ts";
import { BULK_MS, type WireSession } from "../wire-session.ts";

// Job filter by state, age, text and group: its options, their form in the protocol, and a walk
// over the list.

/** Maximum of jobs in one reply. */
const LIST_MAX = 1000;

export interface FilterOptions extends CommonOptions {
  readonly state?: string;
  readonly older?: string;
  readonly text?: string;
  readonly group?: string;
  readonly limit?: string;
}

export function withFilter(command: Command, limit?: string): Command {
  return command
    .option(
      "--state <states>",
      "only jobs in these states: ready, delayed, buried, reserved; separated by commas",
      states,
    )
    .option("--older <time>", "only jobs that were put at least this long ago", duration)
    .option("--text <text>", "only jobs whose bodies contain this text", soughtText)
    .option("--group <key>", "only jobs of this group", soughtText)
    .option("--limit <n>", "at most this many, the oldest first", whole(1, U32_MAX), limit);
}

/** Returns the filter as options of the protocol, without the limit. */
export function filterText({ state, older, text, group }: FilterOptions): string {
  return `${optionsText({ state, older })}${optionsText({ contains: text, group }, true)}`;
}

/** Returns the limit; Infinity without one. */
export const limitOf = ({ limit }: FilterOptions): number =>
  limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);

/**
 * Yields the matching jobs page by page in order of their ids, with the first `shownBytes` of each
 * body.
 */
export async function* listJobs(
  session: WireSession,
  tube: string,
  options: FilterOptions,
  shownBytes = 0,
): AsyncGenerator<Row[], void, undefined> {
  let after = 0;
  for (let left = limitOf(options); left > 0; ) {
    const limit = Math.min(LIST_MAX, left);
    const show = shownBytes === 0 ? "" : ` show=${shownBytes}`;
    const { body } = await session.ask(
      `list-jobs ${tube}${filterText(options)} after=${after} limit=${limit}${show}`,
      "OK",
      undefined,
      BULK_MS,
    );
    const { next, items } = listOf(body, after);
    const jobs = items.map((item) => listedJob(item) as Row);
    if (jobs.length > 0) yield jobs;
    left -= jobs.length;
    if (next === 0) return;
    after = next;
  }
}

const SHOWN_BYTES = 80;
const ALL_TUBES = "*";
const JOB_COLUMNS = [
  "state",
  "pri",
  "age",
  "time-left",
  "reserves",
  "timeouts",
  "disconnects",
  "bytes",
  "progress",
  "body",
];

export function jobsCommand(): Command {
  return withFilter(
    newCommand("jobs <tube>", "list the jobs of a tube, or of all tubes ('*'), the oldest first", {
      tube: tubeOrAll,
    }),
    "100",
  ).action((tube: string, options: FilterOptions) =>
    withWire(options, async (session) => {
      await session.needs("list-jobs");
      const found: Row[] = [];
      for await (const part of listJobs(session, tube, options, SHOWN_BYTES))
        found.push(
          ...part.map((job) => ({
            ...job,
            disconnects: job["disconnects"] ?? 0,
            body: bodyText(job["body"]),
          })),
        );
      printRows(found, [...(tube === ALL_TUBES ? ["id", "tube"] : ["id"]), ...JOB_COLUMNS], options);
      if (found.length === 0) process.exitCode = ExitCode.Nothing;
    }),
  );
}

/** Decodes a listed body, whose characters are bytes. */
const bodyText = (body: unknown): string => Buffer.from(`${body ?? ""}`, "latin1").toString("utf8");

// `history`: the last jobs of a tube, or of all that exist, which have ended.

const HISTORY_COLUMNS = ["id", "tube", "state", "end", "start", "put", "attempts", "worker"];
const HISTORY_TEXTS = ["unique", "group", "note", "reason"];

export function historyCommand(): Command {
  return newCommand(
    "history [tube]",
    "show the last jobs of a tube, or of all tubes, that have ended; needs its setting keep-finished",
    { tube: tubeName },
  )
    .option("--limit <n>", "at most this many, the last first", whole(1, U32_MAX), "100")
    .action((tube: string | undefined, options: FilterOptions) =>
      withWire(options, async (session) => {
        await session.needs("finished-jobs");
        const tubes = tube === undefined ? await session.tubeNames() : [tube];
        const found: Row[] = [];
        for (const name of tubes) found.push(...(await finishedIn(session, name, limitOf(options))));
        const rows = found.toSorted((a, b) => Number(a["end"]) - Number(b["end"])).slice(0, limitOf(options));
        const texts = HISTORY_TEXTS.filter((column) => rows.some((row) => row[column] !== null));
        printRows(rows, [...HISTORY_COLUMNS, ...texts], options);
        if (rows.length === 0) process.exitCode = ExitCode.Nothing;
      }),
    );
}

async function finishedIn(session: WireSession, tube: string, most: number): Promise<Row[]> {
  const rows: Row[] = [];
  let before = Number.MAX_SAFE_INTEGER;
  while (before > 0 && rows.length < most) {
    const limit = Math.min(LIST_MAX, most - rows.length);
    const { body } = await session.ask(`finished-jobs ${tube} before=${before} limit=${limit}`, "OK");
    const { next, items } = finishedOf(body, before);
    const absent = Object.fromEntries(["start", "worker", ...HISTORY_TEXTS].map((name) => [name, null]));
    rows.push(...items.map((job) => ({ ...absent, ...job, tube })));
    before = next;
  }
  return rows;
}

// `failures`: shows why existing jobs have failed: the most frequent reasons, or the latest
// failures.

interface FailuresOptions extends FilterOptions {
  readonly recent?: true;
  readonly top: string;
}

/** The last failure of a job, as `list-jobs` shows it. */
interface Failure {
  readonly attempt: number;
  readonly cause: string;
  readonly age: number;
  readonly worker: string;
  readonly reason: string;
}

const REASON_COLUMNS = ["jobs", "tube", "cause", "reason", "age", "worker", "id"];
const RECENT_COLUMNS = ["id", "tube", "state", "age", "attempt", "cause", "reason", "worker"];
/** Maximum of distinct reasons; jobs with any others are counted together. */
const REASONS_MAX = 10_000;

export function failuresCommand(): Command {
  const command = newCommand(
    "failures [tube]",
    "show why the jobs of a tube, or of all tubes, failed: the most frequent reasons first",
    { tube: tubeOrAll },
  );
  return withFilter(command)
    .option("--recent", "list the jobs that failed most recently instead")
    .option("--top <n>", "show at most this many reasons or jobs", whole(1, U32_MAX), "20")
    .action((tube: string | undefined, options: FailuresOptions) =>
      withWire(options, (session) => showFailures(session, tube, options)),
    );
}

async function showFailures(
  session: WireSession,
  tube: string | undefined,
  options: FailuresOptions,
): Promise<void> {
  await session.needs("name", "failure reasons");
  const most = Number(options.top);
  const isRecent = options.recent === true;
  const found = isRecent ? new Latest(most) : new Frequent();
  for await (const part of listJobs(session, tube ?? "*", options))
    for (const job of part) {
      const { failure } = job as Readonly<Record<string, unknown>> as { readonly failure?: Failure };
      // The list of one tube doesn't repeat its name.
      if (failure !== undefined) found.add({ tube: tube ?? null, ...job }, failure);
    }
  const rows = found.rows.slice(0, most);
  printRows(rows, isRecent ? RECENT_COLUMNS : REASON_COLUMNS, options);
  if (rows.length === 0) process.exitCode = ExitCode.Nothing;
}

/** The jobs that failed last. */
class Latest {
  readonly #most: number;
  #rows: Row[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  add({ id, tube, state }: Row, { age, attempt, cause, reason, worker }: Failure): void {
    const texts = { reason: textOrNull(reason), worker: textOrNull(worker) };
    this.#rows.push({ ...{ id, tube, state, age, attempt, cause }, ...texts });
    if (this.#rows.length > 2 * this.#most + 1000) this.#rows = this.rows.slice(0, this.#most);
  }

  get rows(): Row[] {
    return this.#rows.toSorted((a, b) => Number(a["age"]) - Number(b["age"]));
  }
}

interface Reason {
  jobs: number;
  /** The latest of these jobs. */
  latest: Row;
}

/** Counts jobs by the reason of their failure. Reasons that differ only in numbers are one. */
class Frequent {
  readonly #reasons = new Map<string, Reason>();

  add({ id, tube }: Row, { age, cause, reason, worker }: Failure): void {
    const key = JSON.stringify([tube, cause, reason.replace(/\d+/g, "#")]);
    const isCounted = this.#reasons.has(key) || this.#reasons.size < REASONS_MAX;
    const latest = isCounted
      ? { tube, cause, reason: textOrNull(reason), age, worker: textOrNull(worker), id }
      : { tube: null, cause: "other", reason: null, age: null, worker: null, id: null };
    const known = this.#reasons.getOrInsertComputed(isCounted ? key : "", () => ({ jobs: 0, latest }));
    known.jobs++;
    if (Number(latest.age) < Number(known.latest["age"])) known.latest = latest;
  }

  get rows(): Row[] {
    return [...this.#reasons.values()]
      .toSorted((a, b) => b.jobs - a.jobs || Number(a.latest["age"]) - Number(b.latest["age"]))
      .map(({ jobs, latest }) => ({ jobs, ...latest }));
  }
}

/** Decodes a listed text, whose characters are bytes. An empty text means none. */
const textOrNull = (latin1: string): string | null =>
  latin1 === "" ? null : Buffer.from(latin1, "latin1").toString("utf8");
