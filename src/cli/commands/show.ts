// Commands that show state: stats, tubes, tube, peek.

import { type Command, Option } from "commander";
import { matchesGlob } from "../../base/text.ts";
import { tube as tubeName, tubeOrId } from "../argument.ts";
import { CommandFailed, ExitCode, print, printOne, printRows, type Row } from "../output.ts";
import { type CommonOptions, newCommand, withWire } from "../run.ts";
import type { Report, WireSession } from "../wire-session.ts";

export function showCommands(): Command[] {
  return [stats(), tubes(), tube(), peek()];
}

function stats(): Command {
  return newCommand("stats", "show the counters and gauges of the server").action((options: CommonOptions) =>
    withWire(options, async (session) => printOne(await session.stats(), options)),
  );
}

/** Columns of `tubes` and their names in `stats-tube` and `inspect-tube`. */
const COLUMNS: Readonly<Record<string, string>> = {
  tube: "name",
  ready: "current-jobs-ready",
  urgent: "current-jobs-urgent",
  reserved: "current-jobs-reserved",
  delayed: "current-jobs-delayed",
  buried: "current-jobs-buried",
  puts: "total-jobs",
  deletes: "cmd-delete",
  users: "current-using",
  watchers: "current-watching",
  waiting: "current-waiting",
  pause: "pause-time-left",
  disconnects: "disconnects",
};

/** `pause` is "yes" for a tube that the setting `paused` pauses. */
export function tubeRow(report: Report): Row {
  const row = Object.fromEntries(Object.entries(COLUMNS).map(([column, key]) => [column, report[key]]));
  return report["paused"] === "yes" ? { ...row, pause: "yes" } : row;
}

export const TUBE_COLUMNS: readonly string[] = Object.keys(COLUMNS);

/** Sorts rows by name, or by a number with the largest first. */
export function sorted(rows: readonly Row[], column: string): Row[] {
  const value = (row: Row): number =>
    row[column] === "yes" ? Number.POSITIVE_INFINITY : Number(row[column] ?? 0);
  const byName = (a: Row, b: Row): number => (`${a["tube"]}` < `${b["tube"]}` ? -1 : 1);
  return [...rows].sort((a, b) => (column === "tube" ? 0 : value(b) - value(a)) || byName(a, b));
}

export function sortOption(columns: readonly string[], otherwise: string): Option {
  return new Option("--sort <column>", "column to sort by").choices(columns).default(otherwise);
}

function tubes(): Command {
  return newCommand("tubes [glob]", "list all tubes, or those whose names match")
    .addOption(sortOption(TUBE_COLUMNS, "tube"))
    .option("--names", "print the names only")
    .action((glob: string | undefined, options: CommonOptions & { sort: string; names?: true }) =>
      withWire(options, async (session) => {
        const names = (await session.tubeNames()).filter(
          (name) => glob === undefined || matchesGlob(glob, name),
        );
        if (options.names === true) for (const name of names.sort()) print(name);
        else
          printRows(sorted((await session.tubes(names)).map(tubeRow), options.sort), TUBE_COLUMNS, options);
        if (names.length === 0) process.exitCode = ExitCode.Nothing;
      }),
    );
}

function tube(): Command {
  return newCommand("tube <name>", "show the counters and gauges of a tube", { name: tubeName }).action(
    (name: string, options: CommonOptions) =>
      withWire(options, async (session) => {
        const [report] = await session.tubes([name]);
        if (report === undefined) throw new CommandFailed(`there is no tube ${name}`, ExitCode.Nothing);
        printOne(report, options);
      }),
  );
}

interface PeekOptions extends CommonOptions {
  readonly delayed?: true;
  readonly buried?: true;
  readonly stats?: true;
}

function peek(): Command {
  return newCommand("peek <job>", "show a job by its id, or the next one of a tube, without reserving it", {
    job: tubeOrId,
  })
    .option("--delayed", "of a tube: the delayed job with the shortest delay left")
    .option("--buried", "of a tube: the job that was buried first")
    .option("--stats", "show its state instead of its body")
    .action((job: string, options: PeekOptions) =>
      withWire(options, async (session) => {
        const found = await find(session, job, options);
        if (found.words[0] === "NOT_FOUND")
          throw new CommandFailed(`nothing there: ${job}`, ExitCode.Nothing);
        const report = (await session.report(`stats-job ${found.words[1]}`)) ?? {};
        if (options.stats === true) printOne(report, options);
        else printBody(Buffer.from(found.body ?? []), report, options);
      }),
    );
}

function printBody(body: Buffer, report: Report, { json }: PeekOptions): void {
  if (json === true) print(JSON.stringify({ ...report, ...bodyOf(body) }));
  else if (process.stdout.isTTY) print(body.toString());
  else process.stdout.write(body);
}

function find(session: WireSession, job: string, { delayed, buried }: PeekOptions) {
  if (/^\d+$/.test(job)) return session.ask(`peek ${job}`, "FOUND NOT_FOUND");
  const state = delayed === true ? "delayed" : buried === true ? "buried" : "ready";
  return session.inTube(job, `peek-${state}`, "FOUND NOT_FOUND");
}

/** Returns UTF-8 bodies as text, and others in base64. */
export function bodyOf(body: Buffer): Row {
  const text = body.toString("utf8");
  return Buffer.from(text).equals(body) ? { body: text } : { bodyBase64: body.toString("base64") };
}
