// A group of servers for tests: real log servers, and two runnerbeans that are restarted whenever
// they end, as by systemd.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseGroupUrl } from "../../../src/replica/group-url.ts";
import { JetStreamLog } from "../../../src/replica/jetstream-log.ts";
import { type NodeReport, parseReport } from "../../../src/replica/node-report.ts";
import { freePort } from "../machine/free-port.ts";
import { temporaryFolder } from "../machine/temporary-folder.ts";
import { NATS_SERVERS, NatsCluster } from "./nats-cluster.ts";
import { endsWithUs, ourMain, TEST_ENV } from "./server-process.ts";
import { type Reply, WireClient } from "./wire-client.ts";

/** A test, or whatever else says when it ends. */
interface Ending {
  after(done: () => void): unknown;
}

const GROUP = "test";
const RESTART_MS = 300;
/** A client that is not answered in time tries anew. */
const ANSWER_MS = 2000;
/** Longer than any fail-over, elections of the log servers included, on a machine that is busy. */
const SERVES_MS_MAX = 90_000;

/** Where a server runs: beside the test, or on a machine of its own. */
export interface Place {
  readonly host: string;
  readonly wrapper: readonly string[];
  /** Words before the command of the server alone, inside of `wrapper`. */
  readonly ownWrapper?: readonly string[];
  /** Flags of this server alone. */
  readonly flags?: readonly string[];
}

export const HERE: Place = { host: "127.0.0.1", wrapper: [] };

/** One server of the group, over all its processes. */
export class GroupServer {
  readonly port: number;
  readonly directory: string;
  readonly place: Place;
  readonly #flags: readonly string[];
  #child: ChildProcess | undefined;
  /** Output of all its processes. */
  output = "";
  readonly exits: (number | string)[] = [];
  #keepsRunning = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(port: number, directory: string, flags: readonly string[], place: Place = HERE) {
    this.place = place;
    this.port = port;
    this.directory = directory;
    this.#flags = flags;
  }

  start(): void {
    this.#keepsRunning = true;
    const { host, wrapper, ownWrapper = [], flags: own = [] } = this.place;
    const flags = ["-l", host, "-p", `${this.port}`, "-b", this.directory, ...this.#flags, ...own];
    const program = [process.execPath, ourMain(TEST_ENV), ...flags];
    const [command = process.execPath, ...args] = [...wrapper, ...ownWrapper, ...program];
    const child = spawn(command, [...args, "--replicate-as", this.address], {
      stdio: ["ignore", "ignore", "pipe"],
      env: TEST_ENV,
    });
    this.#child = child;
    endsWithUs(child);
    child.stderr!.setEncoding("utf8").on("data", (text: string) => {
      this.output += text;
    });
    child.once("exit", (code, signal) => {
      this.exits.push(code ?? signal ?? "?");
      if (this.#keepsRunning) this.#timer = setTimeout(() => this.start(), RESTART_MS);
    });
  }

  get address(): string {
    return `${this.place.host}:${this.port}`;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** The process that runs now; it is started again. */
  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** It is not started again. */
  async end(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    this.#keepsRunning = false;
    clearTimeout(this.#timer);
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGCONT");
    child.kill(signal);
    await ended;
  }
}

export class ServerGroup {
  readonly cluster: NatsCluster;
  readonly servers: GroupServer[] = [];
  readonly url: string;
  readonly #log: JetStreamLog;
  readonly #t: Ending;
  readonly #flags: readonly string[];

  private constructor(
    t: Ending,
    cluster: NatsCluster,
    log: JetStreamLog,
    url: string,
    flags: readonly string[],
  ) {
    this.#t = t;
    this.#flags = flags;
    this.cluster = cluster;
    this.#log = log;
    this.url = url;
  }

  /** Resolves when one of them serves: the first, if it is given a directory. */
  static async start(
    t: Ending,
    flags: readonly string[] = [],
    logServers = 3,
    directory?: string,
    machines: readonly Place[] = [],
    maxBytes = 2 ** 30,
  ): Promise<ServerGroup> {
    const cluster = await NatsCluster.start(t, logServers, NATS_SERVERS[0]!, machines);
    const url = cluster.url(GROUP);
    const log = await JetStreamLog.connect(parseGroupUrl(url), "test", true);
    t.after(() => log.close());
    await until("the stream is made", async () => {
      await log.create({ replicas: logServers, maxBytes, groupId: "test-group", seed: 0 });
      return true;
    });
    const group = new ServerGroup(t, cluster, log, url, flags);
    const folder = temporaryFolder(t, "group");
    for (const [each, name] of ["a", "b"].entries()) {
      const own = join(folder, name);
      mkdirSync(own);
      await group.add(name === "a" && directory !== undefined ? directory : own, machines[each]);
      if (directory !== undefined) (await group.serving()).socket.destroy();
    }
    (await group.serving()).socket.destroy();
    return group;
  }

  /** One more server. */
  async add(directory: string, place: Place = HERE): Promise<GroupServer> {
    const flags = [...this.#flags, "--replicate", this.url];
    const server = new GroupServer(await freePort(), directory, flags, place);
    this.servers.push(server);
    this.#t.after(() => server.end());
    server.start();
    return server;
  }

  /** Plays a mistake of an operator. */
  removeStream(): Promise<void> {
    return this.#log.remove();
  }

  /** Ends a server for good, with its directory. */
  async remove(server: GroupServer, signal: NodeJS.Signals): Promise<void> {
    this.servers.splice(this.servers.indexOf(server), 1);
    await server.end(signal);
    rmSync(server.directory, { recursive: true });
  }

  /** A client of the server that answers first: the present primary. */
  connect(): Promise<WireClient> {
    return this.#first((server) => answeredBy(server, (client) => client.ask("peek-ready")));
  }

  /** A stopped server answers late, if at all: don't wait for it. */
  async #first(connect: (server: GroupServer) => Promise<WireClient>): Promise<WireClient> {
    let first: WireClient | undefined;
    const looks = this.servers.map(async (server) => {
      const client = await connect(server);
      if (first !== undefined) client.socket.destroy();
      first ??= client;
      return first;
    });
    return await Promise.any(looks);
  }

  /**
   * Resolves with a client whose put was acknowledged: the primary serves, and the shared log
   * answers.
   */
  serving(): Promise<WireClient> {
    return until("a server of the group serves", () =>
      this.#first((server) =>
        answeredBy(server, async (client) => {
          await client.ask("use probe");
          return await client.put("probe");
        }),
      ),
    );
  }

  async reports(): Promise<NodeReport[]> {
    const answers = await this.#log.askAll(500);
    return answers.map(parseReport).filter((report) => report !== undefined);
  }

  /** The primary, as all answering servers report. */
  primary(): Promise<GroupServer> {
    return until("somebody has the lead", async () => {
      const leads = (await this.reports()).filter(({ role }) => role === "primary");
      const last = leads.sort((a, b) => b.epoch - a.epoch)[0];
      return this.servers.find(({ address }) => last?.address === address);
    });
  }

  /** Waits until all running servers lead or follow, and are complete. */
  caughtUp(): Promise<true> {
    return until("all servers have all", async () => {
      const reports = await this.reports();
      const isThere = reports.length === this.servers.length && reports.every(({ behind }) => behind === 0);
      return isThere && reports.every(({ isComplete, role }) => isComplete && role !== "starting")
        ? true
        : undefined;
    });
  }

  /** A log server loses its store. Resolves when it has got everything back from the others. */
  async emptyLogServer(each: number): Promise<void> {
    await this.cluster.kill(each);
    rmSync(this.cluster.storeFolder(each), { recursive: true, force: true });
    this.cluster.startOne(each);
    await this.cluster.caughtUp();
  }

  /** Returns the log server that leads the stream. */
  async leadingLogServer(): Promise<number> {
    const leader = await until("the stream has a leader", async () => {
      const { leader } = await this.#log.servers();
      return leader === "" ? undefined : leader;
    });
    return Number(leader.slice(1));
  }
}

/** Calls `look` again and again until it finds something, and returns that. */
export async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  let last: unknown;
  for (const end = Date.now() + SERVES_MS_MAX; Date.now() < end; await sleep(50)) {
    try {
      const found = await look();
      if (found !== undefined) return found;
    } catch (error) {
      last = error;
    }
  }
  throw new Error(`not within ${SERVES_MS_MAX} ms: ${what}${last === undefined ? "" : ` (${last})`}`);
}

/** A machine that is cut off answers nothing. */
async function connectInTime(port: number, host: string): Promise<WireClient> {
  const connecting = WireClient.connect({ port, host });
  const client = await Promise.race([connecting, sleep(ANSWER_MS)]);
  if (client !== undefined) return client;
  connecting.then((late) => late.socket.destroy()).catch(() => {});
  throw new Error(`${host} does not answer`);
}

/** A client of the server, if that answers in time as a primary does. */
async function answeredBy(
  { port, place }: GroupServer,
  ask: (client: WireClient) => Promise<Reply>,
): Promise<WireClient> {
  const client = await connectInTime(port, place.host);
  try {
    const reply = await Promise.race([ask(client), sleep(ANSWER_MS)]);
    if (reply !== undefined && /^(?:INSERTED|FOUND|NOT_FOUND)/.test(reply.line)) return client;
  } catch {
    // It has ended meanwhile.
  }
  client.socket.destroy();
  throw new Error(`${place.host}:${port} does not serve`);
}
