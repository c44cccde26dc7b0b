// The model of the scale scenario: what a command costs by how often threads talk and sleep,
// and how many commands a number of cores can do. Its formula stands in bench/README.md.
import { shardOfTube } from "../../src/base/bytes.ts";

/** What the model explains the cost of a command by, each for a command. */
export interface Explained {
  /** Microseconds of the serving threads. */
  readonly cpu: number;
  /** Messages from another thread. */
  readonly crossed: number;
  readonly sleeps: number;
  /** Threads for each core, beyond the first; 0 if there are fewer. */
  readonly crowd: number;
}

/** Microseconds. */
export interface Costs {
  /** Of a command itself. */
  readonly own: number;
  /** Of a message that crosses threads. */
  readonly crossing: number;
  /** Of a sleep: the wake, the system calls, and caches that are cold again. */
  readonly sleep: number;
  /** Of each further thread that a core has. */
  readonly crowd: number;
}

/** The costs, the first of which no fit leaves out. */
const COLUMNS = 4;

/**
 * The costs, none below zero, with the least squares of the relative errors. Throws without rows.
 */
export function fitCosts(rows: readonly Explained[]): Costs {
  if (rows.length === 0) throw new Error("There is nothing to fit the costs to.");
  let best: Costs | undefined;
  let least = Number.POSITIVE_INFINITY;
  // Of the fits that leave some costs out, the best one with none below zero is the best of all
  // that have none below zero.
  for (let used = 1; used < 1 << COLUMNS; used += 2) {
    const columns = Array.from({ length: COLUMNS }, (_, column) => column);
    const solved = solve(
      rows,
      columns.filter((column) => (used & (1 << column)) !== 0),
    );
    if (solved === undefined || solved.some((cost) => cost < 0)) continue;
    const [own = 0, crossing = 0, sleep = 0, crowd = 0] = solved;
    const error = rows.reduce((sum, row) => sum + errorOf({ own, crossing, sleep, crowd }, row) ** 2, 0);
    if (error >= least) continue;
    least = error;
    best = { own, crossing, sleep, crowd };
  }
  return best ?? { own: rows[0]!.cpu, crossing: 0, sleep: 0, crowd: 0 };
}

export const costOf = (costs: Costs, { crossed, sleeps, crowd }: Omit<Explained, "cpu">): number =>
  costs.own + costs.crossing * crossed + costs.sleep * sleeps + costs.crowd * crowd;

const errorOf = (costs: Costs, row: Explained): number => costOf(costs, row) / row.cpu - 1;

/** Normal equations over these columns, by Gauss; undefined if they depend on each other. */
function solve(rows: readonly Explained[], columns: readonly number[]): number[] | undefined {
  const of = ({ cpu, crossed, sleeps, crowd }: Explained): number[] =>
    [1, crossed, sleeps, crowd].map((each) => each / cpu);
  const matrix = columns.map((a) => [
    ...columns.map((b) => sum(rows, (row) => of(row)[a]! * of(row)[b]!)),
    sum(rows, (row) => of(row)[a]!),
  ]);
  const size = columns.length;
  for (let pivot = 0; pivot < size; pivot++) {
    const chosen = matrix.slice(pivot).reduce((a, b) => (Math.abs(b[pivot]!) > Math.abs(a[pivot]!) ? b : a));
    if (Math.abs(chosen[pivot]!) < 1e-12) return undefined;
    matrix.splice(matrix.indexOf(chosen), 1, matrix[pivot]!);
    matrix[pivot] = chosen;
    for (const [index, line] of matrix.entries()) {
      if (index === pivot) continue;
      const share = line[pivot]! / chosen[pivot]!;
      for (let column = pivot; column <= size; column++) line[column]! -= share * chosen[column]!;
    }
  }
  const found = new Array<number>(COLUMNS).fill(0);
  for (const [index, column] of columns.entries())
    found[column] = matrix[index]![size]! / matrix[index]![index]!;
  return found;
}

const sum = <T>(all: readonly T[], of: (one: T) => number): number =>
  all.reduce((total, one) => total + of(one), 0);

/** What limits a number of commands a second; times are microseconds of a command. */
export interface Resources {
  /** Cores of server and generator together, without what others take. */
  readonly cores: number;
  readonly threads: number;
  readonly cpu: number;
  /** Of the server's other threads. */
  readonly helpers: number;
  /** 0 where the clients are elsewhere. */
  readonly generator: number;
  readonly generatorThreads: number;
  /** Of the shards alone. */
  readonly shard: number;
  /** The part of all commands that goes to one shard. */
  readonly hottest: number;
  /** Ids that all threads together can take in a second. */
  readonly idsPerSecond: number;
  /** Ids that a command takes. */
  readonly ids: number;
}

const LIMITS = ["cores", "threads", "hottest shard", "job ids", "generator"] as const;
type Limit = (typeof LIMITS)[number];

export interface Prediction {
  readonly commandsPerSecond: number;
  readonly limit: Limit;
}

/** The scarcest of what there is. */
export function predict(r: Resources): Prediction {
  const most: Readonly<Record<Limit, number>> = {
    cores: (r.cores * 1e6) / (r.cpu + r.helpers + r.generator),
    threads: (r.threads * 1e6) / r.cpu,
    "hottest shard": r.shard > 0 ? 1e6 / (r.shard * r.hottest) : Number.POSITIVE_INFINITY,
    "job ids": r.idsPerSecond / r.ids,
    generator: r.generator > 0 ? (r.generatorThreads * 1e6) / r.generator : Number.POSITIVE_INFINITY,
  };
  const limit = LIMITS.reduce((a, b) => (most[b] < most[a] ? b : a));
  return { commandsPerSecond: most[limit], limit };
}

/** The share of the shard that gets most of the load's tubes, each of which gets as much. */
export function hottestShare(tubes: number, shards: number): number {
  const counts = new Array<number>(shards).fill(0);
  for (let tube = 0; tube < tubes; tube++) {
    const name = new TextEncoder().encode(`bench-${tube}`);
    counts[shardOfTube(name, 0, name.length, shards)]!++;
  }
  return Math.max(...counts) / tubes;
}
