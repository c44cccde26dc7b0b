// `schedule`: lists, shows and changes schedules, which put jobs at certain times.

import { type Command, InvalidArgumentError } from "commander";
import {
  type ListedSchedule,
  type ScheduleOptions,
  type ScheduleReport,
  scheduleList,
  scheduleName,
  scheduleReport,
  setScheduleLine,
} from "../../client/schedule.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import { LISTED_COUNTERS, scheduleCounterWord } from "../../schema/schedule.ts";
import { type Check, duration, seconds, tube, whole } from "../argument.ts";
import { CommandFailed, ExitCode, print, printOne, printRows, type Row } from "../output.ts";
import { type CommonOptions, newCommand, newGroup, withWire } from "../run.ts";
import type { WireSession } from "../wire-session.ts";
import { pair, readStdin } from "./put.ts";

const PAGE = 1000;
const WEIGHT_MAX = 1000;
const COLUMNS = ["name", "tube", "times", "next", "last", ...LISTED_COUNTERS.map(scheduleCounterWord)];

export function scheduleCommand(): Command {
  return newGroup("schedule", "list, show and change schedules, which put jobs at certain times", [
    list(),
    show(),
    set(),
    change("remove", "delete-schedule", "DELETED", "removed", "remove a schedule; its jobs stay"),
    change("pause", "pause-schedule", "PAUSED", "paused", "skip all ticks until resume"),
    change("resume", "resume-schedule", "RESUMED", "resumed", "end a pause"),
    run(),
  ]);
}

const name: Check = (text) => {
  try {
    scheduleName(text);
    return text;
  } catch {
    throw new InvalidArgumentError("Allowed: 1 to 128 bytes without blanks and control characters.");
  }
};

/** Opens a connection to a server that has schedules. */
const withSchedules = (
  options: CommonOptions,
  action: (session: WireSession) => Promise<void>,
): Promise<void> => withWire(options, action, "set-schedule");

function list(): Command {
  return newCommand("list", "list all schedules by name, with their next runs")
    .option("--tube <name>", "only those that put jobs into this tube", tube)
    .action((options: CommonOptions & { tube?: string }) =>
      withSchedules(options, async (session) => {
        const found = await all(session, options.tube);
        if (options.json === true) for (const item of found) print(JSON.stringify(item));
        else printRows(found.map(rowOf), COLUMNS, options);
        if (found.length === 0) process.exitCode = ExitCode.Nothing;
      }),
    );
}

async function all(session: WireSession, tube: string | undefined): Promise<ListedSchedule[]> {
  const command = `list-schedules limit=${PAGE}${tube === undefined ? "" : ` tube=${tube}`}`;
  const found: ListedSchedule[] = [];
  let after = "";
  do {
    const page = after === "" ? command : `${command} after=${after}`;
    const { next, items } = scheduleList((await session.ask(page, "OK")).body, after);
    found.push(...items);
    after = next;
  } while (after !== "");
  return found;
}

const timesOf = ({ cron, every, tz }: ListedSchedule): string =>
  cron === undefined ? `every ${every} s` : `${cron} ${tz}`;

const timeOf = (date: Date | undefined): string => date?.toISOString() ?? "never";

const rowOf = (listed: ListedSchedule): Row => ({
  name: listed.name,
  tube: listed.tube,
  times: timesOf(listed),
  next: listed.paused ? "paused" : timeOf(listed.next),
  last: timeOf(listed.last),
  ...Object.fromEntries(LISTED_COUNTERS.map((counter) => [scheduleCounterWord(counter), listed[counter]])),
});

function show(): Command {
  return newCommand("show <name>", "show a schedule, its next runs and its job", { name }).action(
    (name: string, options: CommonOptions) =>
      withSchedules(options, async (session) => {
        const { body } = await ask(session, "inspect-schedule", name, "OK");
        printReport(scheduleReport(body), options);
      }),
  );
}

function printReport({ shown, ...report }: ScheduleReport, options: CommonOptions): void {
  const body = Buffer.from(shown).toString();
  if (options.json === true) {
    print(JSON.stringify({ ...report, body }));
    return;
  }
  const { nextRuns, meta, missed, missedTicks, lastRefusal, cron, every, tz, ...more } = report;
  const rows: Row = {
    ...more,
    times: timesOf(report),
    next: report.paused ? "paused" : timeOf(report.next),
    last: timeOf(report.last),
    "next-runs": nextRuns.map(timeOf).join(" "),
    missed,
    "missed-ticks": missedTicks,
    "last-refusal": lastRefusal ?? "none",
    group: report.group ?? "",
    meta: Object.entries(meta)
      .map(([key, value]) => `${key}:${value}`)
      .join(" "),
    body,
  };
  printOne(rows, options);
}

interface SetOptions extends CommonOptions {
  readonly cron?: string;
  readonly every?: string;
  readonly tz?: string;
  readonly missed?: "once" | "all" | "none";
  readonly overlap?: "allow" | "skip";
  readonly pri: string;
  readonly delay: string;
  readonly ttr: string;
  readonly ttl?: string;
  readonly group?: string;
  readonly weight?: string;
  readonly meta?: Readonly<Record<string, string>>;
}

const oneOf =
  (...words: readonly string[]): Check =>
  (text) => {
    if (words.includes(text)) return text;
    throw new InvalidArgumentError(`Allowed: ${words.join(", ")}.`);
  };

function set(): Command {
  return newCommand(
    "set <name> <tube> [body]",
    "create a schedule or replace it; the body is read from stdin if it is missing or -",
    { name, tube },
  )
    .option("--cron <expression>", "times: 'minute hour day month weekday', or @daily and the like")
    .option("--every <time>", "interval between jobs, at least 1 second", duration)
    .option("--tz <zone>", "time zone of --cron, such as Europe/Berlin (default: UTC)")
    .option(
      "--missed <which>",
      "jobs for ticks missed while the server was down: once, all or none",
      oneOf("once", "all", "none"),
    )
    .option(
      "--overlap <which>",
      "allow, or skip: put no job while an earlier one exists",
      oneOf("allow", "skip"),
    )
    .option("--pri <n>", "priority of the jobs", whole(0, U32_MAX), "1024")
    .option("--delay <time>", "delay of the jobs, counted from the tick", duration, "0")
    .option("--ttr <time>", "time to run of the jobs", seconds, "60")
    .option("--ttl <time>", "drop a job that has waited this long", duration)
    .option("--group <key>", "group of the jobs")
    .option("--weight <n>", "weight of the group", whole(1, WEIGHT_MAX))
    .option("--meta <name:value>", "context of the jobs; may be repeated", pair)
    .action((name: string, tube: string, body: string | undefined, options: SetOptions, self: Command) => {
      if ((options.cron === undefined) === (options.every === undefined))
        self.error("error: give the times: either --cron or --every");
      return withSchedules(options, async (session) => {
        const bytes = body === undefined || body === "-" ? await readStdin() : Buffer.from(body);
        const line = lineOf(name, tube, bytes.length, options);
        await session.ask(line, "SET", bytes);
        const { next } = scheduleReport((await ask(session, "inspect-schedule", name, "OK")).body);
        print(options.json === true ? JSON.stringify({ name, next }) : `set ${name}, next ${timeOf(next)}`);
      });
    });
}

function lineOf(name: string, tube: string, bytes: number, options: SetOptions): string {
  const texts = ["cron", "tz", "missed", "overlap", "group", "meta"] as const;
  const numbers = ["every", "pri", "delay", "ttr", "ttl", "weight"] as const;
  const given = [
    ...texts.map((key) => [key, options[key]] as const),
    ...numbers.map((key) => [key, options[key] && Number(options[key])] as const),
  ].filter(([, value]) => value !== undefined);
  try {
    return setScheduleLine(name, tube, bytes, Object.fromEntries(given) as ScheduleOptions);
  } catch (error) {
    throw new CommandFailed((error as Error).message, ExitCode.BadArguments);
  }
}

function change(verb: string, command: string, accept: string, done: string, description: string): Command {
  return newCommand(`${verb} <name>`, description, { name }).action((name: string, options: CommonOptions) =>
    withSchedules(options, async (session) => {
      await ask(session, command, name, accept);
      print(options.json === true ? JSON.stringify({ name, [done]: true }) : `${done} ${name}`);
    }),
  );
}

function run(): Command {
  return newCommand("run <name>", "put one job now; prints its id", { name }).action(
    (name: string, options: CommonOptions) =>
      withSchedules(options, async (session) => {
        const { words } = await ask(session, "run-schedule", name, "INSERTED");
        print(options.json === true ? `{"id":${Number(words[1])}}` : `${Number(words[1])}`);
      }),
  );
}

/** Sends a command about a schedule. */
async function ask(session: WireSession, verb: string, name: string, accept: string) {
  const reply = await session.ask(`${verb} ${scheduleName(name)}`, `${accept} NOT_FOUND`);
  if (reply.words[0] === "NOT_FOUND")
    throw new CommandFailed(`there is no schedule ${name}`, ExitCode.Nothing);
  return reply;
}
