// What the scale scenario measures, and what the model says of it.
import {
  type Costs,
  costOf,
  fitCosts,
  hottestShare,
  type Prediction,
  predict,
  type Resources,
} from "./scale-model.ts";
import type { ScaleFigures, ScalePlacement, ScalePoint } from "./scale-run.ts";

export interface ScaleRow {
  readonly point: ScalePoint;
  readonly figures: ScaleFigures;
}

export interface ScaleMachine {
  readonly cores: number;
  readonly generatorThreads: number;
  /** With a thread on each core. */
  readonly idsPerSecond: number;
}

const TUBES = [16, 1] as const;
const PLACEMENTS: readonly ScalePlacement[] = ["together", "apart"];
/** The server takes no more: ACCEPTORS_MAX. */
export const THREADS_MAX = 16;
export const PREDICTED_CORES = [1, 2, 4, 8, 16, 32] as const;
/** A put, a reserve and a delete take one id. */
const IDS_PER_COMMAND = 1 / 3;

/**
 * All numbers of threads on all cores; and, to check the model, as many threads as cores on some of
 * the cores, if the server can be kept to them.
 */
export function pointsOf(threads: readonly number[], cores: number, canKeep: boolean): ScalePoint[] {
  const free = PLACEMENTS.flatMap((placement) =>
    TUBES.flatMap((tubes) => threads.map((count) => ({ placement, threads: count, tubes, cores }))),
  );
  const kept = threads
    .filter((count) => canKeep && count < cores)
    .map((count) => ({ placement: "together" as const, threads: count, tubes: TUBES[0], cores: count }));
  return [...free, ...kept];
}

export interface ScaleModel {
  readonly costs: Costs;
  /** Microseconds of a shard for a command. */
  readonly shard: number;
  readonly rows: readonly CheckedRow[];
  readonly predictions: readonly CorePrediction[];
}

export interface CheckedRow extends ScaleRow {
  /** CPU of a command by the costs. */
  readonly cpu: number;
  readonly predicted: Prediction;
}

export interface CorePrediction extends Prediction {
  readonly cores: number;
  readonly tubes: "many" | 16 | 1;
  readonly cpu: number;
}

export function modelOf(rows: readonly ScaleRow[], machine: ScaleMachine): ScaleModel {
  const costs = fitCosts(rows.map(({ figures }) => figures));
  const shards = rows.filter(({ point }) => point.placement === "apart").map(({ figures }) => figures.shards);
  const shard = Math.min(...shards);
  return {
    costs,
    shard,
    rows: rows.map((row) => check(row, costs, shard, machine)),
    predictions: (["many", 16, 1] as const).flatMap((tubes) =>
      PREDICTED_CORES.map((cores) => predictFor(cores, tubes, rows, costs, shard, machine)),
    ),
  };
}

function check(row: ScaleRow, costs: Costs, shard: number, machine: ScaleMachine): CheckedRow {
  const { point, figures } = row;
  const cpu = costOf(costs, figures);
  const all = {
    threads: point.placement === "apart" ? 2 * point.threads : point.threads,
    cpu,
    generatorThreads: machine.generatorThreads,
    shard,
    hottest: hottestShare(point.tubes, point.threads),
    idsPerSecond: machine.idsPerSecond,
    ids: IDS_PER_COMMAND,
  };
  const left = Math.max(0, 1 - figures.taken / machine.cores);
  const others = machine.cores - point.cores;
  const resources: Resources =
    others === 0
      ? { ...all, cores: machine.cores * left, helpers: figures.helpers, generator: figures.generator }
      : { ...all, cores: point.cores * left, helpers: figures.helpers, generator: 0 };
  const predicted = predict(resources);
  if (others === 0) return { ...row, cpu, predicted };
  const generators = Math.min(machine.generatorThreads, others * left);
  const most = (generators * 1e6) / figures.generator;
  const isSlower = most < predicted.commandsPerSecond;
  return { ...row, cpu, predicted: isSlower ? { commandsPerSecond: most, limit: "generator" } : predicted };
}

/** With clients elsewhere, and a thread for each core. */
function predictFor(
  cores: number,
  tubes: CorePrediction["tubes"],
  rows: readonly ScaleRow[],
  costs: Costs,
  shard: number,
  { idsPerSecond }: ScaleMachine,
): CorePrediction {
  const threads = Math.min(cores, THREADS_MAX);
  const isLike = ({ point }: ScaleRow): boolean =>
    point.placement === "together" && (point.tubes === 1) === (tubes === 1);
  // The crossings are those of as many threads; the turns those of one, which has a core of its
  // own: threads that have to share one sleep more often.
  const like = rows.filter(isLike).sort((a, b) => a.point.threads - b.point.threads);
  const nearest = like.findLast(({ point }) => point.threads <= threads) ?? like[0]!;
  const cpu = costOf(costs, { crossed: nearest.figures.crossed, turns: like[0]!.figures.turns });
  const hottest = tubes === "many" ? 1 / threads : hottestShare(tubes, threads);
  const prediction = predict({
    ...{ cores, threads, cpu, helpers: 0, generator: 0, generatorThreads: 0 },
    ...{ shard, hottest, idsPerSecond, ids: IDS_PER_COMMAND },
  });
  return { cores, tubes, cpu, ...prediction };
}
