// `check`: monitors a tube for Nagios, Icinga and compatible tools.

import { type Command, InvalidArgumentError, Option } from "commander";
import { duration, tube } from "../argument.ts";
import { isNumber, isObject, resultOf } from "../http-session.ts";
import { print } from "../output.ts";
import { explained, newCommand } from "../run.ts";
import { type Target, type TargetOptions, targetOf } from "../target.ts";
import { type Report, WireSession } from "../wire-session.ts";

/** Exit codes of Nagios plugins. */
const Status = { OK: 0, WARNING: 1, CRITICAL: 2, UNKNOWN: 3 } as const;
type Status = (typeof Status)[keyof typeof Status];

const METRICS = ["ready", "reserved", "delayed", "buried", "waiting", "oldest"] as const;
type Metric = (typeof METRICS)[number];
type Values = Partial<Record<Metric, number>>;

type CheckOptions = TargetOptions & { readonly tube: string } & Readonly<Record<string, string>>;

export function checkCommand(): Command {
  const command = newCommand("check", "print a status line for Nagios and exit with 0, 1, 2 or 3");
  command.requiredOption("--tube <name>", "the tube", tube);
  for (const metric of METRICS) {
    const what = metric === "oldest" ? "age of the oldest ready job (over HTTP only)" : `${metric} jobs`;
    const unit = metric === "waiting" ? "waiting clients; fewer than this raise the alarm" : what;
    const [value, check] = metric === "oldest" ? ["time", duration] : ["n", threshold];
    for (const level of ["warn", "crit"])
      command.addOption(new Option(`--${metric}-${level} <${value}>`, unit).argParser(check));
  }
  // Replaces the usual exit code for bad arguments.
  return command
    .configureOutput({ writeErr: (text) => unknown(text.replace(/^error: /, "")) })
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : Status.UNKNOWN))
    .action(check);
}

function threshold(text: string): string {
  if (/^\d+(?:\.\d+)?$/.test(text)) return text;
  throw new InvalidArgumentError("Allowed: a number.");
}

/** Monitoring tools read one line of stdout, whatever happens. */
function unknown(message: string): void {
  const [line = ""] = message.split("\n");
  print(`RUNNERBEAN UNKNOWN - ${line.replaceAll("|", "/")}`);
}

async function check(options: CheckOptions): Promise<void> {
  try {
    const target = targetOf(options, process.env);
    const values =
      target.kind === "http" ? await overHttp(target, options.tube) : await overWire(target, options);
    const levels = METRICS.map((metric) => levelOf(metric, values[metric], options));
    const worst = Math.max(...levels.map(({ status }) => status)) as Status;
    const why = levels.filter(({ status }) => status === worst && worst > 0).map(({ text }) => text);
    const name = Object.entries(Status).find(([, status]) => status === worst)![0];
    const facts = METRICS.filter((metric) => values[metric] !== undefined);
    const perfdata = facts.map((metric) => perfdataOf(metric, values[metric]!, options)).join(" ");
    const summary =
      why.length > 0 ? why.join(", ") : facts.map((metric) => `${values[metric]} ${metric}`).join(", ");
    print(`RUNNERBEAN ${name} - ${options.tube}: ${summary} | ${perfdata}`);
    process.exitCode = worst;
  } catch (error) {
    unknown(explained(error as Error));
    process.exitCode = Status.UNKNOWN;
  }
}

/** A tube that doesn't exist has no jobs. */
async function overWire(target: Target, options: CheckOptions): Promise<Values> {
  if ((limitOf(options, "oldest", "warn") ?? limitOf(options, "oldest", "crit")) !== undefined)
    throw new Error(
      "how long jobs have been ready is only available over HTTP: --url http://127.0.0.1:11380",
    );
  const session = await WireSession.open(target);
  try {
    const report = await session.report(`stats-tube ${options.tube}`);
    const count = (key: string): number => (report === undefined ? 0 : countOf(report, key));
    return {
      ready: count("current-jobs-ready"),
      reserved: count("current-jobs-reserved"),
      delayed: count("current-jobs-delayed"),
      buried: count("current-jobs-buried"),
      waiting: count("current-waiting"),
    };
  } finally {
    await session.end();
  }
}

/** A missing value must not count as zero: the check would report that all is well. */
function countOf(report: Report, key: string): number {
  const count = Number(report[key]);
  if (Number.isFinite(count)) return count;
  throw new Error(`stats-tube reports no ${key}: the server there is not a beanstalkd`);
}

interface TubeView {
  readonly jobs: Readonly<Record<"ready" | "reserved" | "delayed" | "buried", number>>;
  readonly oldestReady: number | null;
  readonly waiters: number;
}

const JOB_COUNTS = ["ready", "reserved", "delayed", "buried"];
const TUBE_VIEW = {
  jobs: (jobs: unknown): boolean => isObject(jobs) && JOB_COUNTS.every((state) => isNumber(jobs[state])),
  oldestReady: (age: unknown): boolean => age === null || isNumber(age),
  waiters: isNumber,
};

async function overHttp(target: Target, name: string): Promise<Values> {
  const path = `/v1/tubes/-?${new URLSearchParams({ tube: name, missing: "zero" })}`;
  const view = (await resultOf(target, path, TUBE_VIEW)) as Readonly<TubeView>;
  const { jobs, oldestReady, waiters } = view;
  const { ready, reserved, delayed, buried } = jobs;
  return { ready, reserved, delayed, buried, waiting: waiters, oldest: oldestReady ?? 0 };
}

function limitOf(options: CheckOptions, metric: Metric, level: "warn" | "crit"): number | undefined {
  const text = options[`${metric}${level === "warn" ? "Warn" : "Crit"}`];
  return text === undefined ? undefined : Number(text);
}

function levelOf(metric: Metric, value: number | undefined, options: CheckOptions) {
  const isOver = (limit: number | undefined): boolean =>
    limit !== undefined && value !== undefined && (metric === "waiting" ? value < limit : value >= limit);
  const [warn, crit] = [limitOf(options, metric, "warn"), limitOf(options, metric, "crit")];
  const status = isOver(crit) ? Status.CRITICAL : isOver(warn) ? Status.WARNING : Status.OK;
  const limit = status === Status.CRITICAL ? crit : warn;
  const sign = metric === "waiting" ? "<" : ">=";
  return { status, text: `${value} ${metric} (${sign} ${limit})` };
}

/** Returns "ready=7;100;1000;0". */
function perfdataOf(metric: Metric, value: number, options: CheckOptions): string {
  const range = (level: "warn" | "crit"): string => {
    const limit = limitOf(options, metric, level);
    if (limit === undefined) return "";
    return metric === "waiting" ? `${limit}:` : `${limit}`;
  };
  return `${metric}=${value}${metric === "oldest" ? "s" : ""};${range("warn")};${range("crit")};0`;
}
