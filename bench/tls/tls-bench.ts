// npm run bench -- --scenario tls: commands through a TLS listener, beside the same server's plain
// address.
//
// The load comes from Node workers, which pay for TLS like the server: with few cores the ratio of
// throughput is a lower bound, and the server's CPU time per command is the better figure. All take
// turns; the medians count.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Table from "cli-table3";
import { Command } from "commander";
import { makeCertificates } from "../../test/support/certificates.ts";
import { freePort } from "../../test/support/machine/free-port.ts";
import { measuredLoad } from "../case/measured-load.ts";
import type { Address } from "../load/load-source.ts";
import { WorkerLoad } from "../load/worker-load.ts";
import { WORKLOAD_DEFAULTS } from "../load/workload.ts";
import { positiveNumber } from "../options.ts";
import { commandContender } from "../server/contender.ts";

interface TlsBenchOptions {
  readonly seconds: number;
  readonly warmup: number;
  readonly turns: number;
}

/** The ratio to commands in the clear that is to be reached, at least. */
const CASES = [
  { connections: 50, pipeline: 1, least: 0.4 },
  { connections: 50, pipeline: 16, least: 0.5 },
] as const;
const WAYS = ["in the clear", "in the clear, libuv", "TLS"] as const;
type Way = (typeof WAYS)[number];

export async function tlsBench(args: readonly string[]): Promise<void> {
  const options = new Command("npm run bench --")
    .description("Measures commands through TLS beside commands in the clear.")
    .option("--scenario <name>", "tls")
    .option("--seconds <n>", "of a turn", positiveNumber, 3)
    .option("--warmup <n>", "seconds of a turn before it counts", positiveNumber, 2)
    .option("--turns <n>", "of each in each case", positiveNumber, 5)
    .parse(args as string[], { from: "user" })
    .opts<TlsBenchOptions>();
  const folder = mkdtempSync(join(tmpdir(), "tls-bench-"));
  const load = new WorkerLoad(1);
  try {
    const table = new Table({
      head: ["put+reserve+delete", "", "commands/s", "CPU, us", "p99, us"],
      style: { head: [], border: [], compact: true },
    });
    const lines: string[] = [];
    for (const { connections, pipeline, least } of CASES) {
      const turns = new Map<Way, Turn[]>(WAYS.map((way) => [way, []]));
      for (let turn = 0; turn < options.turns; turn++) {
        for (const way of WAYS)
          turns.get(way)!.push(await measure(load, way, folder, { ...options, connections, pipeline }));
      }
      const of = (way: Way, figure: keyof Turn): number =>
        median(turns.get(way)!.map((turn) => turn[figure]));
      for (const way of WAYS) {
        const figures = [of(way, "commandsPerSecond").toFixed(0), of(way, "cpu").toFixed(1)];
        table.push([`${connections} x ${pipeline}`, way, ...figures, of(way, "p99").toFixed(0)]);
      }
      const ratio = of("TLS", "commandsPerSecond") / of("in the clear", "commandsPerSecond");
      const byCpu = of("in the clear", "cpu") / of("TLS", "cpu");
      lines.push(
        `${ratio >= least ? "yes" : "NO "}  ${connections} x ${pipeline} with TLS, of without: ${ratio.toFixed(2)} (at least ${least}); by the server's CPU time ${byCpu.toFixed(2)}`,
      );
    }
    console.log(table.toString());
    for (const line of lines) console.log(line);
  } finally {
    await load.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Turn {
  readonly commandsPerSecond: number;
  /** Microseconds of the server for a command. */
  readonly cpu: number;
  readonly p99: number;
}

interface TurnOptions {
  readonly seconds: number;
  readonly warmup: number;
  readonly connections: number;
  readonly pipeline: number;
}

/** Starts a server with both addresses afresh, and loads one of them. */
async function measure(load: WorkerLoad, way: Way, folder: string, options: TurnOptions): Promise<Turn> {
  const { ca, cert, key } = makeCertificates(folder);
  const port = await freePort();
  const config = join(folder, "runnerbean.toml");
  const tls = `tls = { cert = "${cert}", key = "${key}" }`;
  writeFileSync(config, `[[listener]]\naddress = "127.0.0.1:${port}"\n${tls}\n`);
  const transport = way === "in the clear, libuv" ? ["--transport", "libuv"] : [];
  const ours = commandContender("ours", ["bin/runnerbean", "--config", config, ...transport]);
  const server = await ours.start({});
  try {
    const withTls: Address = { host: "127.0.0.1", port, ca: readFileSync(ca, "latin1") };
    const { seconds, warmup: warmupSeconds, connections, pipeline } = options;
    const workload = { ...WORKLOAD_DEFAULTS, seconds, warmupSeconds, connections, pipeline };
    const loaded = { ...server, address: way === "TLS" ? withTls : server.address };
    const { figures } = await measuredLoad(load, loaded, workload);
    const { commandsPerSecond, cpuPerCommand = 0, p99 = 0 } = figures;
    return { commandsPerSecond: commandsPerSecond!, cpu: cpuPerCommand, p99 };
  } finally {
    await server.stop();
  }
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1]!;
}
