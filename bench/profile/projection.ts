// Projection of the measured costs to more cores. Arithmetic, not a measurement.
import { ACCEPTORS_MAX, defaultThreads, SHARDS_MAX } from "../../src/server/options/thread-settings.ts";

/** Microseconds of CPU time for each command, all threads of a role together. */
export interface RoleCosts {
  readonly acceptor: number;
  readonly shard: number;
  /** 0 without a log. */
  readonly binlog: number;
  /** Main thread and helpers: they need cores, but have no thread of their own to be limited by. */
  readonly other: number;
}

interface Layout {
  readonly cores: number;
  readonly acceptors: number;
  readonly shards: number;
}

interface Projection extends Layout {
  readonly commandsPerSecond: number;
  /** What is used up first. */
  readonly limit: "acceptors" | "shards" | "binlog" | "cores";
}

export const PROJECTED_CORES = [4, 8, 16, 32] as const;

export const ASSUMPTIONS: readonly string[] = [
  "a command costs each role as much CPU time as in this run: batches stay as large, caches and memory as fast, and cores are whole cores;",
  "clients run on other machines, and neither they nor the network are the limit;",
  "connections are spread evenly over acceptors, and commands over shards (many tubes, no reserve over several shards);",
  "a thread uses at most one core, and the kernel's work for a thread is done on that core;",
  "a log's disk is never waited for: only the binlog thread's CPU time counts.",
];

/** The bottleneck: the scarcest of what the roles' threads can do, and of all cores together. */
export function project(costs: RoleCosts, layout: Layout): Projection {
  const all = costs.acceptor + costs.shard + costs.binlog + costs.other;
  const limits = [
    ["acceptors", layout.acceptors, costs.acceptor],
    ["shards", layout.shards, costs.shard],
    ["binlog", 1, costs.binlog],
    ["cores", layout.cores, all],
  ] as const;
  let limit: Projection["limit"] = "cores";
  let commandsPerSecond = Number.POSITIVE_INFINITY;
  for (const [name, cores, cost] of limits) {
    const most = cost > 0 ? (cores * 1e6) / cost : Number.POSITIVE_INFINITY;
    if (most >= commandsPerSecond) continue;
    limit = name;
    commandsPerSecond = most;
  }
  return { ...layout, commandsPerSecond, limit };
}

/**
 * The layout that the law finds best, with no more threads than cores; of equally good ones that
 * with the fewest.
 */
export function bestLayout(costs: RoleCosts, cores: number): Projection {
  let best = project(costs, { cores, acceptors: 1, shards: 1 });
  for (let threads = 3; threads <= cores; threads++) {
    for (
      let shards = Math.max(1, threads - ACCEPTORS_MAX);
      shards < Math.min(threads, SHARDS_MAX + 1);
      shards++
    ) {
      const next = project(costs, { cores, acceptors: threads - shards, shards });
      if (next.commandsPerSecond > best.commandsPerSecond) best = next;
    }
  }
  return best;
}

export interface ProjectionRow extends Projection {
  readonly layout: "default" | "best" | "as measured";
}

/**
 * For each number of cores: the server's default threads, the best, and those that were measured.
 */
export function projections(
  costs: RoleCosts,
  measured: { readonly acceptors: number; readonly shards: number },
): ProjectionRow[] {
  return PROJECTED_CORES.flatMap((cores): ProjectionRow[] => [
    { layout: "as measured", ...project(costs, { cores, ...measured }) },
    { layout: "default", ...project(costs, { cores, ...defaultThreads(cores) }) },
    { layout: "best", ...bestLayout(costs, cores) },
  ]);
}
