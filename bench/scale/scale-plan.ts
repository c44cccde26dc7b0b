// What the scale scenario measures, and what the model says of it.
import { defaultThreads } from "../../src/server/options/thread-settings.ts";
import {
  type Costs,
  costOf,
  type Explained,
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
const PREDICTED_CORES = [1, 2, 4, 8, 16, 32] as const;
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
  /** Microseconds of a shard and of an acceptor for a command, apart: the least that was seen. */
  readonly shard: number;
  readonly acceptor: number;
  readonly rows: readonly CheckedRow[];
  readonly predictions: readonly CorePrediction[];
}

interface CheckedRow extends ScaleRow {
  /** CPU of a command by the costs of the other rows. */
  readonly cpu: number;
  readonly predicted: Prediction;
}

interface CorePrediction extends Prediction {
  readonly cores: number;
  /** Commands/s of the threads that the server starts by itself, each role in its own. */
  readonly apart: number;
  readonly tubes: "many" | 16 | 1;
  readonly cpu: number;
}

export function modelOf(rows: readonly ScaleRow[], machine: ScaleMachine): ScaleModel {
  const costs = fitCosts(rows.map(explained));
  const apart = rows.filter(({ point }) => point.placement === "apart").map(({ figures }) => figures);
  const shard = Math.min(...apart.map(({ shards }) => shards));
  const acceptor = Math.min(...apart.map(({ acceptors }) => acceptors));
  const known: Known = { costs, shard, acceptor, rows, machine };
  return {
    costs,
    shard,
    acceptor,
    rows: rows.map((row) => check(row, known)),
    predictions: (["many", 16, 1] as const).flatMap((tubes) =>
      PREDICTED_CORES.map((cores) => predictFor(cores, tubes, known)),
    ),
  };
}

const threadsOf = ({ placement, threads }: ScalePoint): number =>
  placement === "apart" ? 2 * threads : threads;

const explained = ({ point, figures }: ScaleRow): Explained => ({
  ...figures,
  crowd: Math.max(0, threadsOf(point) / point.cores - 1),
});

interface Known {
  readonly costs: Costs;
  readonly shard: number;
  readonly acceptor: number;
  readonly rows: readonly ScaleRow[];
  readonly machine: ScaleMachine;
}

/** By the costs that the other rows have: a row does not vouch for itself. */
function check(row: ScaleRow, { rows, shard, machine }: Known): CheckedRow {
  const { point, figures } = row;
  const others = rows.filter((each) => each !== row);
  const costs = fitCosts((others.length > 0 ? others : rows).map(explained));
  const cpu = costOf(costs, explained(row));
  const all = {
    threads: threadsOf(point),
    cpu,
    generatorThreads: machine.generatorThreads,
    shard,
    hottest: hottestShare(point.tubes, point.threads),
    idsPerSecond: machine.idsPerSecond,
    ids: IDS_PER_COMMAND,
  };
  const left = Math.max(0, 1 - figures.taken / machine.cores);
  const otherCores = machine.cores - point.cores;
  const resources: Resources =
    otherCores === 0
      ? { ...all, cores: machine.cores * left, helpers: figures.helpers, generator: figures.generator }
      : { ...all, cores: point.cores * left, helpers: figures.helpers, generator: 0 };
  const predicted = predict(resources);
  if (otherCores === 0) return { ...row, cpu, predicted };
  const generators = Math.min(machine.generatorThreads, otherCores * left);
  const most = (generators * 1e6) / figures.generator;
  const isSlower = most < predicted.commandsPerSecond;
  return { ...row, cpu, predicted: isSlower ? { commandsPerSecond: most, limit: "generator" } : predicted };
}

/** With clients elsewhere, and a thread for each core. */
function predictFor(
  cores: number,
  tubes: CorePrediction["tubes"],
  { costs, shard, acceptor, rows, machine }: Known,
): CorePrediction {
  const threads = Math.min(cores, THREADS_MAX);
  const isLike = ({ point }: ScaleRow): boolean =>
    point.placement === "together" && (point.tubes === 1) === (tubes === 1);
  // The crossings are those of as many threads; the sleeps those of one, which has a core of its
  // own: threads that have to share one sleep more often.
  const like = rows.filter(isLike).sort((a, b) => a.point.threads - b.point.threads);
  const nearest = like.findLast(({ point }) => point.threads <= threads) ?? like[0]!;
  const { crossed } = nearest.figures;
  const cpu = costOf(costs, { crossed, sleeps: like[0]!.figures.sleeps, crowd: 0 });
  const hottest = (shards: number): number => (tubes === "many" ? 1 / shards : hottestShare(tubes, shards));
  const prediction = predict({
    ...{ cores, threads, cpu, helpers: 0, generator: 0, generatorThreads: 0 },
    ...{ shard, hottest: hottest(threads), idsPerSecond: machine.idsPerSecond, ids: IDS_PER_COMMAND },
  });
  const { acceptors, shards } = defaultThreads(cores);
  const apart = Math.min(
    (acceptors * 1e6) / acceptor,
    1e6 / (shard * hottest(shards)),
    (cores * 1e6) / (acceptor + shard),
  );
  return { cores, tubes, cpu, ...prediction, apart };
}
