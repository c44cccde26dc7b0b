// `failures`: shows why existing jobs have failed: the most frequent reasons, or the latest
// failures.

import type { Command } from "commander";
import { U32_MAX } from "../../protocol/limits.ts";
import { tubeOrAll, whole } from "../argument.ts";
import { ExitCode } from "../exit-code.ts";
import { printRows, type Row } from "../output.ts";
import { newCommand, withWire } from "../run.ts";
import type { WireSession } from "../wire-session.ts";
import { type FilterOptions, listJobs, withFilter } from "./job-filter.ts";

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

const COLUMNS = ["jobs", "tube", "cause", "reason", "age", "worker", "id"];
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
  printRows(rows, isRecent ? RECENT_COLUMNS : COLUMNS, options);
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
    const texts = { reason: textOf(reason), worker: textOf(worker) };
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
      ? { tube, cause, reason: textOf(reason), age, worker: textOf(worker), id }
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
const textOf = (latin1: string): string | null =>
  latin1 === "" ? null : Buffer.from(latin1, "latin1").toString("utf8");
