// The whole server as a process under mixed load, with the smallest rings and with pauses in all
// its threads.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Placement } from "../../src/message/topology.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { type Topology, topologyFlags, topologyName } from "../support/topologies.ts";
import type { Experiment } from "./case.ts";
import { type CaseOptions, type CaseReport, grouped, missingOf } from "./run-case.ts";
import { LOAD_OUTCOMES, ServerLoad } from "./server-load.ts";
import { PAUSES_NOTE, RING_NOTE } from "./server-preload.ts";

const EAGER_MOVES = new URL("../support/machine/eager-migration.ts", import.meta.url).href;
const PRELOAD = new URL("./server-preload.ts", import.meta.url).href;
/**
 * For a server that hangs: one with pauses at every atomic operation takes a while, more so on a
 * busy machine.
 */
const START_MS = 180_000;
const STOP_MS = 180_000;
/** Last output of the server, shown with a failure. */
const LINES_SHOWN = 12;

export interface ServerCase extends Experiment {
  readonly planted: readonly string[];
  readonly topology: Topology;
  /** Whether the server keeps a log, with replies that wait for it. */
  readonly hasLog: boolean;
  readonly placement: Placement;
  /** Threads of `together`. */
  readonly threads: number;
  /** Connections move from thread to thread as often as they can. */
  readonly areMoving: boolean;
}

const TWO_STEP_CLAIMS = "claims by a load and a store";

function serverCase(
  topology: Topology,
  hasLog: boolean,
  planted: readonly string[],
  placement: Placement = "apart",
  threads = topology.acceptors,
): ServerCase {
  const { shards, acceptors } = topology;
  const fewer = threads < acceptors ? `-${threads}` : "";
  const hosts = placement === "together" ? `-together${fewer}` : "";
  return {
    name: `server-${shards}x${acceptors}${hasLog ? "-log" : ""}${hosts}`,
    about: `the whole server with ${topologyName(topology)}${hasLog ? " and a log" : ""}, ${placement}, rings of 4 KiB`,
    outcomes: LOAD_OUTCOMES,
    planted,
    topology,
    hasLog,
    placement,
    threads,
    areMoving: false,
  };
}

export const SERVER_CASES: readonly ServerCase[] = [
  serverCase({ shards: 1, acceptors: 1 }, false, []),
  serverCase({ shards: 4, acceptors: 1 }, false, [TWO_STEP_CLAIMS]),
  serverCase({ shards: 7, acceptors: 3 }, false, []),
  serverCase({ shards: 4, acceptors: 1 }, true, []),
  serverCase({ shards: 7, acceptors: 3 }, true, []),
  serverCase({ shards: 7, acceptors: 3 }, false, [], "together"),
  serverCase({ shards: 4, acceptors: 2 }, true, [], "together"),
  serverCase({ shards: 2, acceptors: 3 }, false, [], "together", 2),
  moving(serverCase({ shards: 4, acceptors: 2 }, false, [], "together")),
  moving(serverCase({ shards: 7, acceptors: 3 }, true, [], "together")),
];

/** The same with connections that move. */
function moving(played: ServerCase): ServerCase {
  const about = `${played.about}, with connections that move as often as they can`;
  return { ...played, name: `${played.name}-moving`, about, areMoving: true };
}

export async function runServerCase(played: ServerCase, options: CaseOptions): Promise<CaseReport> {
  const directory = mkdtempSync(join(tmpdir(), "runnerbean-stress-"));
  const log = played.hasLog ? ["-b", directory, "-f", "0", "-s", "1000000"] : [];
  try {
    const server = await startServer({
      kind: "ours",
      flags: [...topologyFlags(played.topology), ...placementFlags(played), ...log, "--log-level", "debug"],
      env: {
        NODE_OPTIONS: `--import ${PRELOAD}${played.areMoving ? ` --import ${EAGER_MOVES}` : ""}`,
        STRESS_SEED: `${options.seed}`,
        ...(options.planted === undefined ? {} : { STRESS_PLANTED: "claim" }),
      },
      startMs: START_MS,
    });
    return await underLoad(server, played, options);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function placementFlags({ placement, threads }: ServerCase): string[] {
  return ["--placement", placement, ...(placement === "together" ? ["--threads", `${threads}`] : [])];
}

async function underLoad(
  server: ServerProcess,
  played: ServerCase,
  { seed, seconds }: CaseOptions,
): Promise<CaseReport> {
  const load = new ServerLoad(server, new SeededRandom(seed));
  await load.run(seconds);
  const died = server.hasExited;
  const ending = await endOf(server);
  const broken = notStressed(server.stderr, played);
  if (died) broken.push("the server died");
  else if (ending !== undefined) broken.push(ending);
  if (load.failures.length + broken.length > 0) broken.push(...spoken(server.stderr).slice(-LINES_SHOWN));
  return {
    played,
    counts: load.counts,
    size: `${load.connections} connections, ${grouped(sum(load.counts.values()))} replies looked up`,
    forbidden: load.failures,
    broken,
    missing: [
      ...missingOf(played, load.counts),
      ...(standsStill(server.stderr, played) ? ["a move of a connection"] : []),
    ],
  };
}

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((total, number) => total + number, 0);

const spoken = (stderr: string): string[] =>
  stderr.split("\n").filter((line) => line !== "" && !line.startsWith("stress: "));

/** The rings that are made small: to and from each shard, and to the log. */
export function smallRings({ topology: { shards, acceptors }, hasLog }: ServerCase): number {
  return 2 * shards * acceptors + (hasLog ? shards : 0);
}

/**
 * Returns whether the rings were small and each thread had its pauses; otherwise the run shows
 * nothing.
 */
/** Returns what was wrong with the end of the server. */
async function endOf(server: ServerProcess): Promise<string | undefined> {
  try {
    const { code } = await server.stop(STOP_MS);
    return code === 0 ? undefined : `the server ended with code ${code}`;
  } catch (error) {
    return `${error}`;
  }
}

function notStressed(stderr: string, played: ServerCase): string[] {
  const { topology, hasLog, placement, threads: hosts } = played;
  const lines = stderr.split("\n");
  const { shards, acceptors } = topology;
  const wrong: string[] = [];
  const rings = lines.filter((line) => line === RING_NOTE).length;
  const ringsWanted = smallRings(played);
  if (rings !== ringsWanted) wrong.push(`${rings} of ${ringsWanted} rings were of the smallest size`);
  const threads = [
    ...Array.from({ length: placement === "together" ? 0 : shards }, (_, shard) => `shard ${shard}`),
    ...Array.from({ length: placement === "together" ? hosts : acceptors }, (_, host) => `acceptor ${host}`),
    ...(hasLog ? ["binlog"] : []),
  ];
  for (const thread of threads) {
    // The thread of an acceptor is named for the shards that live in it, too.
    const paused = lines.some(
      (line) =>
        /^[ ,]/.test(`${line} `.slice(`${PAUSES_NOTE}${thread}`.length)) &&
        line.startsWith(`${PAUSES_NOTE}${thread}`),
    );
    if (!paused) wrong.push(`no pause in ${thread}`);
  }
  return wrong;
}

/** Returns whether no connection moved where they should; with libuv none can. */
function standsStill(stderr: string, { areMoving }: ServerCase): boolean {
  const mayMove = /together in \d+ threads.*io_uring/.test(stderr);
  return areMoving && mayMove && !/"moved":[1-9]/.test(stderr);
}
