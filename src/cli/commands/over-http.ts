// Commands that only the HTTP API supports: health, server, threads, log, connections, leases,
// draining, reloading.

import { setTimeout as sleep } from "node:timers/promises";
import { type Command, Option } from "commander";
import { type Check, id as jobId, tube, whole } from "../argument.ts";
import {
  askHttp,
  isListOf,
  isNumber,
  isObject,
  isText,
  mustBe,
  resultOf,
  type Shape,
} from "../http-session.ts";
import {
  type Cell,
  CommandFailed,
  ExitCode,
  type OutputOptions,
  print,
  printOne,
  printRows,
  type Row,
} from "../output.ts";
import { type CommonOptions, newCommand, withHttp } from "../run.ts";
import type { Target } from "../target.ts";

/** Maximum of items in one response. */
const LIMIT_MAX = 1000;

type View = Readonly<Record<string, unknown>>;

const isRunnerbean = (name: unknown): boolean => name === "runnerbean";
const viewsOf = (name: string): Shape => ({ [name]: isListOf(isObject) });

export function httpCommands(): Command[] {
  return [
    health(),
    shown("server", "show version, options, state and memory of the server", "/v1/server", {
      name: isRunnerbean,
      version: isText,
    }),
    shown("threads", "show turns, messages and sleeps of each thread", "/v1/threads", viewsOf("threads"), {
      of: "threads",
      columns: [],
    }),
    shown("latency", "show quantiles of how long jobs wait and are held", "/v1/latency", viewsOf("shards")),
    connections(),
    close(),
    shown("leases", "list the reservations of HTTP workers", "/v1/leases", viewsOf("items"), {
      of: "items",
      columns: LEASE_COLUMNS,
    }),
    release(),
    drain("drain", "stop accepting new jobs", "PUT", true),
    reload(),
    drain("undrain", "accept new jobs again", "DELETE", false),
  ];
}

/**
 * `binlog status`: the log of a running server. The other tools of the log must not be used on it.
 */
export function binlogStatusCommand(): Command {
  return shown(
    "status",
    "show the log of a running server: size, amplification, disk latency",
    "/v1/binlog",
    { bytes: isNumber },
  );
}

type Scrub = Readonly<Record<"walks" | "left" | "found" | "damaged", number>> & {
  readonly failure: string;
  readonly paused: boolean;
  readonly places: readonly View[];
};

const SCRUB: Shape = { walks: isNumber, left: isNumber, found: isNumber, damaged: isNumber };
const SCRUB_LOOK_MS = 200;

/**
 * `binlog scrub`: looks for damage, in a directory that no server uses with `checkDirectory`, or in
 * the log of a running server.
 */
export function binlogScrubCommand(checkDirectory: (directory: string) => Promise<void>): Command {
  return overHttp(
    "scrub [dir]",
    "read every file of the log and list what is damaged; exits with 1 if anything is",
  )
    .option("--pause", "only pause the server's daily search, until the next scrub")
    .action((dir: string | undefined, options: CommonOptions & { pause?: true }) =>
      dir === undefined ? withHttp(options, (target) => scrub(target, options)) : checkDirectory(dir),
    );
}

async function scrub(target: Target, options: CommonOptions & { pause?: true }): Promise<void> {
  const path = "/v1/binlog/scrub";
  const isPause = options.pause === true;
  const before = (await resultOf(target, path, SCRUB, isPause ? "DELETE" : "POST")) as Scrub;
  const now = isPause ? before : await walked(target, before.walks);
  if (options.json === true) print(JSON.stringify(now));
  else if (isPause) print("paused");
  else {
    if (now.places.length > 0) printRows(now.places.map(asRow), [], options);
    print(now.failure || `${now.found} damaged places since the start, ${now.damaged} of them still there`);
  }
  if (!isPause && (now.damaged > 0 || now.failure !== "")) process.exitCode = ExitCode.Nothing;
}

/** Resolves when a walk has ended since `walks` were over, or has failed. */
async function walked(target: Target, walks: number): Promise<Scrub> {
  for (;;) {
    // The first look must not show what was before this walk.
    await sleep(SCRUB_LOOK_MS);
    const log = await resultOf(target, "/v1/binlog", { scrub: isObject });
    const scrub = log["scrub"] as Scrub;
    if (scrub.walks !== walks || scrub.failure !== "") return scrub;
    if (scrub.paused)
      throw new CommandFailed("the search was paused before its end: run this again", ExitCode.Nothing);
  }
}

function overHttp(
  nameAndArguments: string,
  description: string,
  checks?: Readonly<Record<string, Check>>,
): Command {
  return newCommand(nameAndArguments, `${description} (over HTTP)`, checks);
}

function health(): Command {
  return overHttp("health", "check whether the server is ready; exits with 0, 1 or 3")
    .addOption(new Option("--for <what>", "check whether it is ready for this").choices(["put", "work"]))
    .option("--live", "check whether it is alive instead")
    .action((options: CommonOptions & { for?: string; live?: true }) =>
      withHttp(options, async (target) => {
        const query = options.for === undefined ? "" : `?${new URLSearchParams({ for: options.for })}`;
        const path = options.live === true ? "/livez" : `/readyz${query}`;
        const answer = await askHttp(target, "GET", path);
        mustBe(target, answer, { status: isText });
        const { status, body } = answer;
        print(options.json === true ? JSON.stringify(body) : healthText(body as View));
        if (status !== 200) process.exitCode = ExitCode.Nothing;
      }),
    );
}

/** Returns "ok", or the fault and its reason. */
function healthText({ status, detail }: View): string {
  return detail === undefined || detail === status ? `${status}` : `${status}: ${detail}`;
}

const LEASE_COLUMNS = ["id", "tube", "owner", "address", "age", "timeLeft"];

const CONNECTION_COLUMNS = [
  "id",
  "name",
  "address",
  "age",
  "uses",
  "watches",
  "waiting",
  "held",
  "bytesIn",
  "bytesOut",
];

const CLOSED_COLUMNS = ["id", "name", "address", "closedFor", "reason", "age", "uses", "watches"];

interface ConnectionOptions extends CommonOptions {
  readonly state?: string;
  readonly tube?: string;
  readonly sort?: string;
  readonly limit: string;
}

function connections(): Command {
  return overHttp("connections", "list the open connections of the beanstalkd protocol and what each holds")
    .addOption(
      new Option(
        "--state <state>",
        "only those that are waiting, or holding jobs; or the last closed ones",
      ).choices(["open", "waiting", "holding", "closed"]),
    )
    .option("--tube <name>", "only connections that use or watch this tube", tube)
    .addOption(
      new Option("--sort <by>", "sort by this, largest first").choices(["age", "idle", "held", "bytes"]),
    )
    .option("--limit <n>", "at most this many", whole(1, LIMIT_MAX), "100")
    .action((options: ConnectionOptions) =>
      withHttp(options, async (target) => {
        const { state, tube, sort, limit } = options;
        const query = new URLSearchParams(
          Object.entries({ state, tube, sort, limit }).flatMap(([key, value]) =>
            value === undefined ? [] : [[key, value]],
          ),
        );
        const found = await resultOf(target, `/v1/connections?${query}`, viewsOf("items"));
        const items = found["items"] as View[];
        if (options.json === true) for (const item of items) print(JSON.stringify(item));
        else printRows(items.map(asRow), state === "closed" ? CLOSED_COLUMNS : CONNECTION_COLUMNS, options);
        if (items.length === 0) process.exitCode = ExitCode.Nothing;
      }),
    );
}

function close(): Command {
  return overHttp(
    "close <connection>",
    "close a connection, by its id in connections, once its pending commands are answered",
  ).action((id: string, options: CommonOptions) =>
    act(options, "DELETE", `/v1/connections/${encodeURIComponent(id)}`, "closed", {
      id: (closed) => closed === id,
    }),
  );
}

function release(): Command {
  return overHttp("release <id>", "end the reservation of a job, as if its time to run had expired", {
    id: jobId,
  }).action((id: string, options: CommonOptions) =>
    act(options, "POST", `/v1/jobs/${encodeURIComponent(id)}/release`, "released", {
      id: (released) => released === Number(id),
    }),
  );
}

function reload(): Command {
  return overHttp("reload", "reload configuration, tokens and certificates: all of it, or nothing").action(
    (options: CommonOptions) =>
      withHttp(options, async (target) => {
        const shape = { changed: isListOf(isText), needsRestart: isListOf(isText) };
        const done = await resultOf(target, "/v1/server/reload", shape, "POST");
        const { changed, needsRestart } = done as Readonly<Record<"changed" | "needsRestart", string[]>>;
        const rest = needsRestart.length === 0 ? "" : `; needs a restart: ${needsRestart.join(", ")}`;
        print(
          options.json === true ? JSON.stringify(done) : `changed: ${changed.join(", ") || "nothing"}${rest}`,
        );
      }),
  );
}

function drain(name: string, description: string, method: string, isDraining: boolean): Command {
  const done = isDraining ? "takes no new jobs" : "takes new jobs";
  return overHttp(name, description).action((options: CommonOptions) =>
    act(options, method, "/v1/server/drain", done, {
      draining: (value) => value === isDraining,
    }),
  );
}

function act(
  options: CommonOptions,
  method: string,
  path: string,
  what: string,
  shape: Shape,
): Promise<void> {
  return withHttp(options, async (target) => {
    const body = await resultOf(target, path, shape, method);
    print(options.json === true ? JSON.stringify(body) : what);
  });
}

/** Field of the response that holds the list, and columns to show even if it is empty. */
interface List {
  readonly of: string;
  readonly columns: readonly string[];
}

function shown(name: string, description: string, path: string, shape: Shape, list?: List): Command {
  return overHttp(name, description).action((options: CommonOptions) =>
    withHttp(options, async (target) => show(await resultOf(target, path, shape), list, options)),
  );
}

/**
 * Prints a list as a table, and other values as keys and values. A nested field becomes a path,
 * "memory.heap".
 */
function show(body: unknown, list: List | undefined, options: OutputOptions): void {
  if (list === undefined) {
    if (options.json === true) print(JSON.stringify(body));
    else printOne(flat(body), options);
    return;
  }
  const items = (body as Readonly<Record<string, View[]>>)[list.of]!;
  const rows = items.map(flat);
  if (options.json === true) for (const item of items) print(JSON.stringify(item));
  else printRows(rows, [...new Set([...list.columns, ...rows.flatMap((row) => Object.keys(row))])], options);
  if (items.length === 0) process.exitCode = ExitCode.Nothing;
}

/** Returns a cell for each field, with lists joined by commas. */
const asRow = (view: View): Row =>
  Object.fromEntries(
    Object.entries(view).map(([key, value]) => [key, Array.isArray(value) ? value.join() : (value as Cell)]),
  );

function flat(value: unknown): Row {
  const row: Record<string, Cell> = {};
  const visit = (each: unknown, path: string): void => {
    if (typeof each === "object" && each !== null && Object.keys(each).length > 0 && !isHistogram(each))
      for (const [key, inner] of Object.entries(each)) visit(inner, path === "" ? key : `${path}.${key}`);
    else row[path] = cellOf(each);
  };
  visit(value, "");
  return row;
}

function cellOf(value: unknown): Cell {
  if (isHistogram(value)) return histogramText(value);
  return typeof value === "object" ? JSON.stringify(value) : (value as Cell);
}

type Bucket = Readonly<Record<"count", number> & Record<"le", number | null>>;

const isHistogram = (value: unknown): value is readonly Bucket[] =>
  Array.isArray(value) &&
  value.length > 0 &&
  value.every((each) => each?.le !== undefined && "count" in each);

/** Returns the counts by upper bound without empty buckets: "0.001: 5, 0.0025: 1, more: 2". */
function histogramText(buckets: readonly Bucket[]): string {
  const some = buckets.filter(({ count }) => count > 0);
  return some.map(({ le, count }) => `${le ?? "more"}: ${count}`).join(", ") || "-";
}
