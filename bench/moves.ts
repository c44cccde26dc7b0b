// bin/node bench/moves.ts: the cost of moving a connection between threads, for its client and for
// the server.
//
// One client alternates between a tube of one thread and a tube of another. With moves at every
// opportunity (test/support/machine/eager-migration.ts) its connection moves for each command; with
// --no-migration every second command crosses threads; with one tube it stays with its tube. All
// take turns. The client's own cost is part of every figure. Real moves are rare, and cold code is
// slow, so the first moves of a server are reported separately.

import { startServer } from "../test/support/server/server-process.ts";
import { WireClient } from "../test/support/server/wire-client.ts";
import { preciseCpuSeconds } from "./server/process-usage.ts";

const EAGER = new URL("../test/support/machine/eager-migration.ts", import.meta.url).href;
const TWO_THREADS = ["--shards", "2", "--acceptors", "2", "--placement", "together", "--threads", "2"];
const COMMANDS = 6000;
const FIRST = 40;
const TURNS = 5;

interface Way {
  readonly name: string;
  /** On different shards, if they are two. */
  readonly tubes: readonly string[];
  readonly flags: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const WAYS: readonly Way[] = [
  { name: "moves each time", tubes: ["t0", "t1"], flags: [], env: { NODE_OPTIONS: `--import ${EAGER}` } },
  { name: "crosses every other time", tubes: ["t0", "t1"], flags: ["--no-migration"], env: {} },
  { name: "lives where its tube is", tubes: ["t1"], flags: [], env: { NODE_OPTIONS: `--import ${EAGER}` } },
];

/** Microseconds. */
interface Turn {
  readonly first: number;
  readonly p50: number;
  readonly p90: number;
  readonly cpu: number;
}

async function measure({ tubes, flags, env }: Way): Promise<Turn> {
  const server = await startServer({ kind: "ours", flags: [...TWO_THREADS, ...flags], env });
  const client = await WireClient.connect(server.address);
  const times: number[] = [];
  let cpuSeconds = 0;
  for (let command = 0; command < COMMANDS; command++) {
    if (command === COMMANDS / 2) cpuSeconds = preciseCpuSeconds(server.child.pid!);
    const begunAtMs = performance.now();
    await client.ask(`stats-tube ${tubes[command % tubes.length]}`);
    times.push(1000 * (performance.now() - begunAtMs));
  }
  cpuSeconds = preciseCpuSeconds(server.child.pid!) - cpuSeconds;
  client.close();
  await server.stop();
  const later = times.slice(COMMANDS / 2);
  return {
    first: quantile(times.slice(0, FIRST), 0.5),
    p50: quantile(later, 0.5),
    p90: quantile(later, 0.9),
    cpu: (cpuSeconds / later.length) * 1e6,
  };
}

function quantile(values: readonly number[], share: number): number {
  return values.toSorted((a, b) => a - b)[Math.floor(share * (values.length - 1))]!;
}

const turns = new Map<Way, Turn[]>(WAYS.map((way) => [way, []]));
for (let turn = 0; turn < TURNS; turn++) for (const way of WAYS) turns.get(way)!.push(await measure(way));
const rows = WAYS.map((way) => {
  const median = (figure: keyof Turn): number =>
    Math.round(
      quantile(
        turns.get(way)!.map((turn) => turn[figure]),
        0.5,
      ),
    );
  const figures = {
    p50: median("p50"),
    p90: median("p90"),
    first: median("first"),
    "server's CPU": median("cpu"),
  };
  return [way.name, figures] as const;
});
console.table(Object.fromEntries(rows));
console.log(
  `us a command, medians of ${TURNS} turns; "first" is the median of the first ${FIRST} commands of a server`,
);
