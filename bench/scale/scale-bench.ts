// npm run bench -- --scenario scale: what a command costs with 1 to 16 threads, a model of it, and
// what the model says of more cores.
import { appendFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { Command } from "commander";
import type { LoadSource } from "../load/load-source.ts";
import { positiveNumber, words } from "../options.ts";
import { machine } from "../result/machine.ts";
import { spreadOf } from "../result/measurement.ts";
import { progress } from "../result/progress.ts";
import { canKeep, usableCores } from "./cores.ts";
import { idRate } from "./id-rate.ts";
import { modelOf, pointsOf, type ScaleRow, THREADS_MAX } from "./scale-plan.ts";
import { type ScaleFigures, type ScalePoint, scaleRun } from "./scale-run.ts";
import { scaleText } from "./scale-table.ts";

interface ScaleOptions {
  readonly threads: readonly number[];
  readonly connections: number;
  readonly seconds: number;
  readonly warm: number;
  readonly turns: number;
  readonly generators: number;
  readonly json?: string;
}

const ID_MS = 300;

export function scaleOptions(program: string, args: readonly string[]): ScaleOptions {
  return new Command(program)
    .description("Measures what a command costs with more threads, and compares with a model.")
    .option("--scenario <name>", "scale")
    .option("--threads <n,..>", "acceptors, and as many shards", threadCounts, [1, 2, 4, 8, 16])
    .option("--connections <n>", "for each of the threads", positiveNumber, 48)
    .option("--seconds <s>", "of a turn", positiveNumber, 2)
    .option("--warm <n>", "commands for each of the threads before a turn", positiveNumber, 100_000)
    .option("--turns <n>", "of each row; the medians count", positiveNumber, 1)
    .option(
      "--generators <n>",
      "threads that make the load",
      positiveNumber,
      Math.max(1, Math.min(16, availableParallelism() >> 1)),
    )
    .option("--json <file>", "append what was found to a file, as a line of JSON")
    .allowExcessArguments(false)
    .parse([...args], { from: "user" })
    .opts<ScaleOptions>();
}

function threadCounts(text: string): number[] {
  return words(text).map((word) => {
    const count = positiveNumber(word);
    if (Number.isInteger(count) && count <= THREADS_MAX) return count;
    throw new Error(
      `--threads ${text}: ${word} is no number of threads; give whole ones, 1 to ${THREADS_MAX}`,
    );
  });
}

export async function scaleBench(options: ScaleOptions, load: LoadSource): Promise<void> {
  const cores = usableCores().length;
  const points = pointsOf(options.threads, cores, canKeep());
  const bar = progress(points.length * options.turns);
  const rows: ScaleRow[] = [];
  try {
    const turns = points.map(() => [] as ScaleFigures[]);
    for (let turn = 0; turn < options.turns; turn++) {
      for (const [index, point] of points.entries()) {
        bar.begin(titleOf(point));
        turns[index]!.push(await scaleRun(point, { ...options, warmCommands: options.warm }, load));
        bar.done();
      }
    }
    for (const [index, point] of points.entries()) rows.push({ point, figures: medians(turns[index]!) });
  } finally {
    bar.stop();
  }
  const idsPerSecond = await idRate(Math.min(cores, THREADS_MAX), ID_MS);
  const facts = { cores, generatorThreads: options.generators, idsPerSecond };
  const model = modelOf(rows, facts);
  const { cpu, kernel, node, commit } = machine(process.cwd());
  console.log(`\n${cpu}, ${cores} cores; ${kernel}; Node ${node}; commit ${commit}\n`);
  console.log(scaleText(model, facts));
  if (options.json !== undefined)
    appendFileSync(options.json, `${JSON.stringify({ cpu, kernel, node, commit, ...facts, ...model })}\n`);
}

function titleOf({ placement, threads, tubes, cores }: ScalePoint): string {
  return `${placement}, ${threads} threads, ${tubes === 1 ? "1 tube" : `${tubes} tubes`}, ${cores} cores`;
}

function medians(turns: readonly ScaleFigures[]): ScaleFigures {
  const names = Object.keys(turns[0]!) as (keyof ScaleFigures)[];
  const figures = names.map((name) => [name, spreadOf(turns.map((turn) => turn[name])).median] as const);
  return Object.fromEntries(figures) as Record<keyof ScaleFigures, number>;
}
