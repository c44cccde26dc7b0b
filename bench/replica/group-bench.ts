// npm run bench -- --scenario replicated | fail-over: a group of two servers and three log servers,
// all on this machine.
//
// The load comes from the generator in C. Figures of five processes on few cores are lower bounds:
// on real machines, each has a disk and cores of its own.

import { execFileSync, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import Table from "cli-table3";
import { Command } from "commander";
import { temporaryFolder } from "../../test/support/machine/temporary-folder.ts";
import { missingNats } from "../../test/support/server/nats-cluster.ts";
import { ServerGroup, until } from "../../test/support/server/server-group.ts";
import { startServer } from "../../test/support/server/server-process.ts";
import type { WireClient } from "../../test/support/server/wire-client.ts";
import { positiveNumber } from "../options.ts";
import { failOverPhases, PHASE_NAMES } from "./fail-over-phases.ts";

const NATIVE = fileURLToPath(new URL("../../native-bench", import.meta.url));
/** Connections and commands under way on each. */
const SHAPES = [
  [1, 1],
  [50, 1],
  [500, 1],
  [50, 64],
] as const;
const MACHINE_LOST_MS = 15_000;
/** The load right after a fail-over, and what it is compared with, in seconds. */
const FIRST_SECONDS = 0.5;
const WARM_UP_SECONDS = 5;

interface Cleanup {
  after(done: () => void): void;
  end(): Promise<void>;
}

function cleanup(): Cleanup {
  const done: (() => unknown)[] = [];
  return {
    after: (each) => void done.push(each),
    async end() {
      for (const each of done.reverse()) await each();
    },
  };
}

export async function groupBench(args: readonly string[]): Promise<void> {
  const command = new Command("npm run bench --")
    .requiredOption("--scenario <name>", "replicated, or fail-over")
    .option("--seconds <n>", "of load in each row", positiveNumber, 5)
    .option("--rounds <n>", "of fail-over", positiveNumber, 10)
    .option("--jobs <n>", "in the queue when the primary is killed", positiveNumber, 100_000)
    .parse(args as string[], { from: "user" });
  const { scenario, seconds, rounds, jobs } = command.opts<{
    scenario: string;
    seconds: number;
    rounds: number;
    jobs: number;
  }>();
  if (missingNats() !== undefined)
    throw new Error("there is no nats-server: .ci/nats-server.sh /tmp/runnerbean-nats/sid sid");
  const t = cleanup();
  try {
    if (scenario === "replicated") await replicated(t, seconds);
    else await failOver(t, rounds, jobs);
  } finally {
    await t.end();
  }
}

interface Line {
  commandsPerSecond: number;
  p50: number;
  p99: number;
  errors: number;
}

interface LoadOptions {
  scenario: string;
  connections: number;
  pipeline: number;
  seconds: number;
  /** Seconds before the measured ones. */
  warmup: number;
}

function load(port: number, options: LoadOptions): Promise<Line> {
  const flags = { ...options, port, body: 64 };
  const words = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, `${value}`]);
  const child = spawn(`${NATIVE}/build/beanload`, words, { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0 ? resolve(JSON.parse(output) as Line) : reject(new Error(`beanload ended with ${code}`)),
    );
  });
}

/** Puts, in a group and, in turns with it, on one server with the same log. */
async function replicated(t: Cleanup, seconds: number): Promise<void> {
  execFileSync("make", ["-s", "-C", NATIVE]);
  const group = await ServerGroup.start(t, ["-f", "50"]);
  const primary = await group.primary();
  const alone = await startServer({ kind: "ours", flags: ["-b", temporaryFolder(t, "alone"), "-f", "0"] });
  t.after(() => alone.kill());
  const table = new Table({
    head: ["put", "in a group, /s", "p50 ms", "p99 ms", "alone -f 0, /s", "group : alone"],
  });
  for (const [connections, pipeline] of SHAPES) {
    const options = { scenario: "put", connections, pipeline, seconds, warmup: 1 };
    const ours = await load(primary.port, options);
    const single = await load(alone.port, options);
    const ms = (us: number): string => (us / 1000).toFixed(2);
    const ratio = (ours.commandsPerSecond / single.commandsPerSecond).toFixed(2);
    table.push([
      `${connections} x ${pipeline}`,
      Math.round(ours.commandsPerSecond),
      ms(ours.p50),
      ms(ours.p99),
      Math.round(single.commandsPerSecond),
      ratio,
    ]);
  }
  console.log(table.toString());
  const [behind] = await Promise.all([Date.now(), group.caughtUp()]);
  console.log(`the standby had all ${Date.now() - behind} ms after the last of it`);
}

async function fill(client: WireClient, jobs: number): Promise<void> {
  const command = `put 0 0 60 64\r\n${"x".repeat(64)}\r\n`;
  for (let left = jobs; left > 0; left -= 1000) {
    client.send(command.repeat(Math.min(1000, left)));
    for (let n = 0; n < Math.min(1000, left); n++) await client.readReply();
  }
}

/** Commands/s of the first half second of load, and of the same when the server is warm. */
async function firstAndWarm(port: number): Promise<[first: number, warm: number]> {
  const options = { scenario: "put-reserve-delete", connections: 50, pipeline: 1, seconds: FIRST_SECONDS };
  const first = await load(port, { ...options, warmup: 0 });
  const warm = await load(port, { ...options, warmup: WARM_UP_SECONDS });
  return [first.commandsPerSecond, warm.commandsPerSecond];
}

/**
 * kill -9 of the primary, until a put is acknowledged again, and the speed of the new primary right
 * after that.
 */
async function failOver(t: Cleanup, rounds: number, jobs: number): Promise<void> {
  execFileSync("make", ["-s", "-C", NATIVE]);
  const group = await ServerGroup.start(t, ["-f", "50"]);
  await fill(await group.serving(), jobs);
  const times: number[] = [];
  const phases: number[][] = [];
  const speeds: [first: number, warm: number][] = [];
  for (let round = 0; round < rounds; round++) {
    await group.caughtUp();
    const primary = await group.primary();
    const standby = group.servers.find((server) => server !== primary)!;
    const saidBytes = standby.output.length;
    const killedAtMs = Date.now();
    const at = performance.now();
    primary.signal("SIGKILL");
    (await group.serving()).socket.destroy();
    times.push(performance.now() - at);
    const took = failOverPhases(standby.output.slice(saidBytes), killedAtMs, Date.now());
    if (took !== undefined) phases.push(took);
    speeds.push(await firstAndWarm(standby.port));
  }
  const at = (share: number): string => `${quantile(times, share)} ms`;
  console.log(
    `kill -9 of the primary with ${jobs} jobs, ${rounds} times: serves after p50 ${at(0.5)}, p99 ${at(0.99)}, max ${at(1)}`,
  );
  const table = new Table({ head: ["the standby, ms", "p50", "p99", "max"] });
  for (const [phase, name] of PHASE_NAMES.entries()) {
    const took = phases.map((each) => each[phase]!);
    table.push([name, quantile(took, 0.5), quantile(took, 0.99), quantile(took, 1)]);
  }
  console.log(table.toString());
  const ratios = speeds.map(([first, warm]) => first / warm).toSorted((a, b) => a - b);
  console.log(
    `put+reserve+delete 50 x 1 in the first ${FIRST_SECONDS} s: p50 ${quantile(
      speeds.map(([first]) => first),
      0.5,
    )}/s, ${ratios[ratios.length >> 1]!.toFixed(2)} of the same after ${WARM_UP_SECONDS} s`,
  );
  await group.caughtUp();
  await machineLost(group);
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0);
}

/**
 * Its machine: nothing refuses, nothing answers. A process that is stopped looks like that from
 * outside.
 */
async function machineLost(group: ServerGroup): Promise<void> {
  const primary = await group.primary();
  const at = performance.now();
  primary.signal("SIGSTOP");
  await until("the other one serves", async () => {
    const client = await group.serving();
    const isOther = client.socket.remotePort !== primary.port;
    client.socket.destroy();
    return isOther ? true : undefined;
  });
  console.log(`the primary's machine is lost: serves after ${Math.round(performance.now() - at)} ms`);
  if (performance.now() - at > MACHINE_LOST_MS)
    console.log("that is more than an election of the log servers takes");
  await primary.end();
}
