// Output of the scale scenario.
import Table from "cli-table3";
import { formatCount } from "../result/figures.ts";
import type { ScaleMachine, ScaleModel } from "./scale-plan.ts";

export function scaleText(model: ScaleModel, machine: ScaleMachine): string {
  const { costs, shard } = model;
  return [
    `put+reserve+delete. CPU in microseconds, and messages, sleeps and wakes, for each command\n${rowTable(model)}`,
    `helpers: V8's threads, which compile the code for each thread. taken: cores that other programs used.`,
    `The model: CPU = ${costs.own.toFixed(2)} + ${costs.crossing.toFixed(2)} x crossed + ${costs.sleep.toFixed(1)} x sleeps + ` +
      `${costs.crowd.toFixed(2)} x (threads for each core - 1), in microseconds; a shard takes ${shard.toFixed(2)} of it. Job ids: ${formatCount(machine.idsPerSecond)}/s with a thread on each core.\n` +
      `By the costs of the other rows, it misses the CPU of a row by ${percent(missOf(model, "cpu"))} and its commands/s by ${percent(missOf(model, "rate"))} (medians).`,
    `PREDICTION, not a measurement: commands/s of as many threads as cores, with clients elsewhere\n${predictionTable(model)}`,
  ].join("\n\n");
}

/** The median of how far the model is from what was measured, as a share. */
export function missOf({ rows }: ScaleModel, figure: "cpu" | "rate"): number {
  const misses = rows.map(({ cpu, predicted, figures }) =>
    figure === "cpu"
      ? Math.abs(cpu / figures.cpu - 1)
      : Math.abs(predicted.commandsPerSecond / figures.commandsPerSecond - 1),
  );
  return misses.sort((a, b) => a - b)[misses.length >> 1]!;
}

const percent = (share: number): string => `${(share * 100).toFixed(0)} %`;

function table(head: string[], left: number): InstanceType<typeof Table> {
  const colAligns = head.map((_, index) => (index < left ? "left" : "right"));
  return new Table({ head, colAligns, style: { head: [], border: [], compact: true } });
}

function rowTable({ rows }: ScaleModel): string {
  const head = ["placement", "tubes", "cores", "threads", "commands/s", "CPU", "model", "busiest"];
  const more = ["helpers", "generator", "taken", "crossed", "sleeps", "wakes", "moves/1000"];
  const shown = table([...head, ...more, "model, commands/s", "limit"], 1);
  for (const { point, figures, cpu, predicted } of rows) {
    shown.push([
      point.placement,
      point.tubes,
      point.cores,
      point.placement === "apart" ? `${point.threads}+${point.threads}` : point.threads,
      formatCount(figures.commandsPerSecond),
      figures.cpu.toFixed(2),
      cpu.toFixed(2),
      figures.busiest.toFixed(2),
      figures.helpers.toFixed(2),
      figures.generator.toFixed(2),
      figures.taken.toFixed(2),
      figures.crossed.toFixed(2),
      figures.sleeps.toFixed(3),
      figures.wakes.toFixed(3),
      (figures.moves * 1000).toFixed(2),
      formatCount(predicted.commandsPerSecond),
      predicted.limit,
    ]);
  }
  return shown.toString();
}

function predictionTable({ predictions }: ScaleModel): string {
  const shown = table(["tubes", "cores", "CPU", "commands/s", "used up first", "apart, default threads"], 1);
  for (const { tubes, cores, cpu, commandsPerSecond, limit, apart } of predictions)
    shown.push([tubes, cores, cpu.toFixed(2), formatCount(commandsPerSecond), limit, formatCount(apart)]);
  return shown.toString();
}
