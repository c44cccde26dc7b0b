// Real log servers for tests: one or three nats-servers on free ports with their own folder, which
// can be killed, stopped and restarted.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../machine/free-port.ts";
import { missing } from "../machine/need.ts";
import { temporaryFolder } from "../machine/temporary-folder.ts";
import { endsWithUs } from "./server-process.ts";

/**
 * Programs to test with, newest first: what NATS_SERVERS says (paths, with colons between), or
 * where `.ci/nats-server.sh` puts them.
 */
export const NATS_SERVERS: readonly string[] = (
  process.env["NATS_SERVERS"] ??
  ["/tmp/runnerbean-nats/sid/usr/sbin/nats-server", "/tmp/runnerbean-nats/trixie/usr/sbin/nats-server"].join(
    ":",
  )
)
  .split(":")
  .filter((path) => existsSync(path));

/** Returns whether there is no log server: then the test is skipped loudly, or fails under CI. */
export function missingNats(): string | undefined {
  if (NATS_SERVERS.length > 0) return undefined;
  return missing({ path: "nats-server", remedy: ".ci/nats-server.sh /tmp/runnerbean-nats/sid sid" });
}

/** What is read of the monitor's answer at /jsz. */
interface Jsz {
  account_details?: {
    stream_detail?: { readonly name: string; readonly state: { readonly messages: number } }[];
  }[];
}

const READY_MS = 30_000;
const CAUGHT_UP_MS = 90_000;

interface Ports {
  host: string;
  client: number;
  route: number;
  monitor: number;
}

/** Where a log server runs, if not beside the test. */
interface Machine {
  readonly host: string;
  readonly wrapper: readonly string[];
}

export class NatsCluster {
  readonly folder: string;
  readonly program: string;
  readonly #ports: Ports[] = [];
  readonly #wrappers: (readonly string[])[] = [];
  readonly #processes: (ChildProcess | undefined)[] = [];

  private constructor(folder: string, program: string) {
    this.folder = folder;
    this.program = program;
  }

  /** Resolves when all serve; ended with the test. */
  static async start(
    t: { after(done: () => void): unknown },
    servers: number,
    program = NATS_SERVERS[0]!,
    machines: readonly Machine[] = [],
  ): Promise<NatsCluster> {
    const cluster = new NatsCluster(temporaryFolder(t, "nats"), program);
    for (let each = 0; each < servers; each++) {
      const { host = "127.0.0.1", wrapper = [] } = machines[each] ?? {};
      cluster.#wrappers.push(wrapper);
      cluster.#ports.push({
        host,
        client: await freePort(),
        route: await freePort(),
        monitor: await freePort(),
      });
    }
    t.after(() => cluster.end());
    for (let each = 0; each < servers; each++) cluster.startOne(each);
    await cluster.ready();
    return cluster;
  }

  get servers(): readonly string[] {
    return this.#ports.map(({ host, client }) => `${host}:${client}`);
  }

  url(group: string): string {
    return `nats://${this.servers.join(",")}/${group}`;
  }

  monitor(each: number): string {
    const { host, monitor } = this.#ports[each]!;
    return `http://${host}:${monitor}`;
  }

  pid(each: number): number {
    return this.#processes[each]!.pid!;
  }

  storeFolder(each: number): string {
    return join(this.folder, `n${each}`);
  }

  startOne(each: number): void {
    const { host, client, route, monitor } = this.#ports[each]!;
    const store = this.storeFolder(each);
    mkdirSync(store, { recursive: true });
    const several = this.#ports.length > 1;
    const routes = this.#ports.map((ports) => `nats://${ports.host}:${ports.route}`).join(", ");
    const text = `
      server_name: n${each}
      listen: ${host}:${client}
      http: ${host}:${monitor}
      max_payload: 1MB
      jetstream { store_dir: "${store}", max_file_store: 4GB, max_memory_store: 64MB, sync_interval: always }
      ping_interval: "2s"
      ping_max: 2
      ${several ? `cluster { name: test, listen: ${host}:${route}, routes: [${routes}] }` : ""}
    `;
    const config = join(this.folder, `n${each}.conf`);
    writeFileSync(config, text);
    const log = join(this.folder, `n${each}.log`);
    const [command = this.program, ...args] = [
      ...this.#wrappers[each]!,
      this.program,
      "-c",
      config,
      "-l",
      log,
    ];
    const child = spawn(command, args, { stdio: "ignore" });
    this.#processes[each] = child;
    endsWithUs(child);
  }

  ready(): Promise<void> {
    return this.#allSay("/healthz?js-enabled-only=true", READY_MS);
  }

  /** Waits until each server has all of its streams, by its own account. */
  caughtUp(): Promise<void> {
    return this.#allSay("/healthz", CAUGHT_UP_MS);
  }

  /** Messages of a stream that each server has itself. */
  async copiesOf(stream: string): Promise<readonly number[]> {
    const looks = this.#ports.map(async (_, each) => {
      const answer = await fetch(`${this.monitor(each)}/jsz?accounts=true&streams=true`);
      const { account_details: accounts = [] } = (await answer.json()) as Jsz;
      const streams = accounts.flatMap(({ stream_detail: details = [] }) => details);
      return streams.find(({ name }) => name === stream)?.state.messages ?? 0;
    });
    return await Promise.all(looks);
  }

  async #allSay(path: string, limitMs: number): Promise<void> {
    for (const end = performance.now() + limitMs; performance.now() < end; await sleep(50)) {
      const answers = this.#ports.map((_, each) =>
        fetch(`${this.monitor(each)}${path}`).then(({ ok }) => ok),
      );
      if ((await Promise.all(answers).catch(() => [false])).every(Boolean)) return;
    }
    throw new Error(`the nats-servers in ${this.folder} do not become healthy (${path})`);
  }

  signal(each: number, signal: NodeJS.Signals): void {
    this.#processes[each]?.kill(signal);
  }

  async kill(each: number): Promise<void> {
    const child = this.#processes[each];
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  async end(): Promise<void> {
    await Promise.all(this.#ports.map((_, each) => this.kill(each)));
  }
}
