// `runnerbean replica …`: creates, checks and shows a group of servers, and performs its manual
// operations.

import { randomBytes } from "node:crypto";
import { Command } from "commander";
import { adoptDirectory } from "../../binlog/tools/adopt.ts";
import { print, tell } from "../../cli/output.ts";
import { parseSize } from "../../config/setting.ts";
import { detach } from "../../replica/detach.ts";
import { type GroupUrl, readGroupUrl } from "../../replica/group-url.ts";
import {
  JetStreamLog,
  type Jsz,
  type StreamOptions,
  serverProblem,
  streamProblems,
} from "../../replica/jetstream-log.ts";
import { memberProblems, type NodeReport, parseReport } from "../../replica/node-report.ts";
import { LogError } from "../../replica/shared-log.ts";

// Writes a minimal configuration for a log server of a group.

function natsConfig(name: string, peers: readonly string[], store: string): string {
  const routes = peers.map((peer) => `nats://${peer}:6222`).join(", ");
  return [
    `server_name: ${name}`,
    "listen: 0.0.0.0:4222",
    "http: 0.0.0.0:8222",
    "jetstream {",
    `  store_dir: "${store}"`,
    "  # Without this, a power cut of all log servers loses changes acknowledged in the last two minutes.",
    "  sync_interval: always",
    "}",
    "cluster {",
    "  name: runnerbean",
    "  listen: 0.0.0.0:6222",
    `  routes: [${routes}]`,
    "}",
    "# Detects a disconnected server sooner.",
    'ping_interval: "2s"',
    "ping_max: 2",
  ].join("\n");
}

const SERVER_MIN = [2, 10, 23];
const MAX_BYTES_DEFAULT = "4G";
const MAX_BYTES_MIN = 128 * 1024 * 1024;

class Refused extends Error {}

const newGroupId = (): string => randomBytes(8).toString("hex");

async function withLog<T>(text: string, work: (log: JetStreamLog, url: GroupUrl) => Promise<T>): Promise<T> {
  const url = readGroupUrl(text);
  const log = await JetStreamLog.connect(url, "runnerbean replica", false);
  try {
    return await work(log, url);
  } catch (error) {
    if (!(error instanceof LogError) || error.kind !== "missing") throw error;
    throw new Refused(
      `group ${url.group} has no stream: create it with "runnerbean replica init", or "runnerbean replica reseed" if it was lost`,
    );
  } finally {
    await log.close();
  }
}

/** Wraps a command's action: an error prints its message and sets exit code 1. */
function action<A extends unknown[]>(work: (...args: A) => Promise<void>): (...args: A) => Promise<void> {
  return async (...args) => {
    try {
      await work(...args);
    } catch (error) {
      const { message, nextStep } = error as Error & { nextStep?: string };
      tell(`runnerbean replica: ${message}${nextStep === undefined ? "" : `\n  ${nextStep}`}`);
      process.exitCode = 1;
    }
  };
}

interface InitOptions {
  replicas: string;
  maxBytes: string;
}

function streamOptions({ replicas, maxBytes }: InitOptions): { replicas: number; maxBytes: number } {
  const bytes = parseSize(maxBytes);
  if (bytes === undefined) throw new Refused(`invalid size: --max-bytes ${maxBytes}`);
  if (bytes < MAX_BYTES_MIN)
    throw new Refused(`too small: --max-bytes ${maxBytes} (at least 128M: 64M of it is for slow standbys)`);
  if (!["1", "3", "5"].includes(replicas))
    throw new Refused(`invalid number: --replicas ${replicas} (1, 3 or 5)`);
  return { replicas: Number(replicas), maxBytes: bytes };
}

async function createOnce(log: JetStreamLog, group: string, options: StreamOptions): Promise<void> {
  try {
    await log.create(options);
  } catch (error) {
    const { message } = error as Error;
    if (/no suitable peers|insufficient (storage )?resources|peer storage/i.test(message))
      throw new Refused(
        `${message}: each of the ${options.replicas} log servers must have room for --max-bytes ${options.maxBytes}; nats-server takes three quarters of a disk, or max_file_store: give a lower --max-bytes (at least 128M), or more room`,
      );
    if (!/already in use/.test(message)) throw error;
    throw new Refused(`group ${group} exists already: "runnerbean replica status" shows it`);
  }
}

async function init(text: string, options: InitOptions): Promise<void> {
  await withLog(text, async (log, { group }) => {
    await createOnce(log, group, { ...streamOptions(options), groupId: newGroupId(), seed: 0 });
    print(
      `Created the stream of group ${group}, with ${options.replicas} replicas and room for ${options.maxBytes}.`,
    );
    if (options.replicas === "1")
      print("One replica: if that log server dies, the group stops. Use this only to try things out.");
    print(`Next: runnerbean -b DIR --replicate ${text}, on each machine.`);
  });
}

function isOldServer(version: string): boolean {
  const parts = version.split(/[.-]/).map(Number);
  for (const [at, least] of SERVER_MIN.entries()) {
    const part = parts[at] ?? 0;
    if (part !== least) return part < least;
  }
  return false;
}

/** Connects to a log server and returns its version, or what is wrong with it. */
export async function logServerOf(
  url: GroupUrl,
  server: string,
): Promise<{ found: string; problem: string | undefined }> {
  try {
    const log = await JetStreamLog.connect({ ...url, servers: [server] }, "runnerbean replica check", false);
    const { name, version } = log.server;
    await log.close();
    const found = `${server}: ${name}, nats-server ${version}`;
    if (!isOldServer(version)) return { found, problem: undefined };
    const newer = `${SERVER_MIN.join(".")} or newer, of Debian 13 or https://github.com/nats-io/nats-server/releases`;
    return { found, problem: `${server}: nats-server ${version} does not obey sync_interval: use ${newer}` };
  } catch (error) {
    return { found: "", problem: `${server}: ${(error as Error).message}` };
  }
}

/** Prints what each server is, and returns the problems found. */
async function checkServers(url: GroupUrl): Promise<string[]> {
  const problems: string[] = [];
  for (const server of url.servers) {
    const { found, problem } = await logServerOf(url, server);
    if (found !== "") print(found);
    if (problem !== undefined) problems.push(problem);
  }
  return problems;
}

async function checkMonitor(address: string): Promise<string[]> {
  try {
    const answer = await fetch(`${address.replace(/\/$/, "")}/jsz`, { signal: AbortSignal.timeout(5000) });
    const problem = serverProblem((await answer.json()) as Jsz);
    if (problem !== undefined) return [`${address}: ${problem}`];
    print(`${address}: syncs always`);
    return [];
  } catch (error) {
    return [`${address}: ${(error as Error).message}`];
  }
}

async function checkStream(text: string): Promise<string[]> {
  const problems: string[] = [];
  try {
    await withLog(text, async (log) => {
      const servers = await log.servers();
      const { last, bytes, limitBytes } = await log.ends();
      const { replicas, leader } = servers;
      print(`stream: ${replicas} replicas, leader ${leader || "none"}, ${bytes} of ${limitBytes} bytes`);
      problems.push(...streamProblems(servers));
      const members = await reports(log);
      for (const member of members) print(statusLine(member));
      // Before the first server is started, there is nothing in the stream.
      if (last > 0 || members.length > 0) problems.push(...memberProblems(members));
    });
  } catch (error) {
    problems.push(`the stream: ${(error as Error).message}`);
  }
  return problems;
}

async function check(text: string, { monitor = [] }: { monitor?: string[] }): Promise<void> {
  const url = readGroupUrl(text);
  const problems = await checkServers(url);
  for (const address of monitor) problems.push(...(await checkMonitor(address)));
  if (monitor.length < url.servers.length)
    print(
      "Not checked: whether all servers always sync. Give the HTTP port of each with --monitor http://HOST:8222",
    );
  problems.push(...(await checkStream(text)));
  for (const problem of problems) tell(problem);
  if (problems.length > 0)
    throw new Refused(`${problems.length} ${problems.length === 1 ? "problem" : "problems"}`);
  print("All is well.");
}

async function reports(log: JetStreamLog): Promise<NodeReport[]> {
  const answers = (await log.askAll()).map(parseReport).filter((report) => report !== undefined);
  return answers.sort((a, b) => b.n - a.n);
}

function statusLine(report: NodeReport): string {
  const { node, role, address, epoch, n } = report;
  const where = `${node.toString(16).padStart(8, "0")}  ${role.padEnd(8)} ${address}  epoch ${epoch}, batch ${n}`;
  if (role === "standby") {
    // Servers of an older version may answer -1.
    const messages = Math.max(0, report.behind);
    const behind = `${messages} ${messages === 1 ? "message" : "messages"} behind`;
    return `${where}; ${behind}${report.isComplete ? "" : ", still waits for some jobs"}`;
  }
  if (role !== "primary") return where;
  const state = report.mayServe ? "serves" : "frozen: the shared log does not answer";
  return `${where}; ${state}, ${report.pendingBatches} batches under way`;
}

async function status(text: string, { json }: { json?: boolean }): Promise<void> {
  await withLog(text, async (log, { group }) => {
    const nodes = await reports(log);
    const ends = await log.ends();
    if (json) return print(JSON.stringify({ group, ...ends, nodes }));
    print(
      `group ${group}: messages ${ends.first} to ${ends.last}, ${ends.bytes} of ${ends.limitBytes} bytes`,
    );
    for (const report of nodes) print(statusLine(report));
    if (nodes.length === 0) print("No server of the group is connected.");
  });
}

async function giveUp(text: string): Promise<void> {
  await withLog(text, async (log) => {
    const primary = (await reports(log)).find(({ role }) => role === "primary");
    if (primary === undefined) throw new Refused("no server of the group has the lead");
    if ((await log.ask(primary.node, "yield")) !== "yields")
      throw new Refused(`${primary.address} does not answer`);
    print(`${primary.address} gives up the lead; it ends with code 75, to be started again as a standby.`);
  });
}

async function reseed(text: string, options: InitOptions & { binlog: string; yes?: boolean }): Promise<void> {
  if (options.yes !== true)
    throw new Refused(
      "this removes the stream, and all other servers of the group have to start over: stop all of them (systemctl stop), then add --yes",
    );
  const stream = streamOptions(options);
  const groupId = newGroupId();
  await withLog(text, async (log, { group }) => {
    const alive = await reports(log);
    if (alive.length > 0)
      throw new Refused(
        `stop all servers of the group first: ${alive.map(({ address }) => address).join(", ")}`,
      );
    const jobs = await adoptDirectory(options.binlog, groupId, async (seed) => {
      await log.remove().catch(() => {});
      await log.create({ ...stream, groupId, seed });
    });
    print(`Group ${group} starts over with the ${jobs} jobs of ${options.binlog}.`);
    print(
      "Next: start its server with --replicate. On the other machines, move the directory away (keep it until all is well), then start theirs; the order does not matter.",
    );
  });
}

export function replicaCommand(): Command {
  const command = new Command("runnerbean replica").description(
    "create, check and show a group of servers on NATS JetStream",
  );
  const url = "nats://a:4222,b:4222,c:4222/GROUP";
  const ofStream = (each: Command): Command =>
    each
      .option("--replicas <n>", "log servers that keep each message: 3, 5, or 1 to try things out", "3")
      .option(
        "--max-bytes <size>",
        "room for the stream; puts are refused when it is nine tenths full",
        MAX_BYTES_DEFAULT,
      );
  ofStream(command.command("init <url>").description(`create the stream of a group: ${url}`)).action(
    action(init),
  );
  command
    .command("check <url>")
    .description("check the log servers of a group, and once it has begun, its servers")
    .option("--monitor <address...>", "HTTP port of each log server, such as http://a:8222")
    .action(action(check));
  command
    .command("status <url>")
    .description("show the servers of a group")
    .option("--json", "for programs")
    .action(action(status));
  command
    .command("yield <url>")
    .description("make the primary hand over to a standby")
    .action(action(giveUp));
  command
    .command("detach <url>")
    .description("forbid all servers of the group to lead, so that one can be used on its own")
    .action(
      action(async (text: string) => {
        await withLog(text, async (log) => print(await detach(log)));
      }),
    );
  ofStream(
    command
      .command("reseed <url>")
      .description("restart the group with the jobs of one directory; stop all servers of the group first")
      .requiredOption("-b, --binlog <dir>", "the most advanced directory")
      .option("--yes", "confirm that the stream is removed"),
  ).action(action(reseed));
  command
    .command("nats-conf <name> <peers...>")
    .description("print a configuration for a log server: its host name, then the host names of all")
    .option("--store <dir>", "where it keeps its data", "/var/lib/nats")
    .action((name: string, peers: string[], { store }: { store: string }) =>
      print(natsConfig(name, peers, store)),
    );
  return command;
}
