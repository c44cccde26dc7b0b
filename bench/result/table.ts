// Table on the terminal: one line per case and server, followed by what doesn't fit in columns.
import Table from "cli-table3";
import { FIGURE_NAMES, FIGURES, type FigureName, formatFigure } from "./figures.ts";
import { type CaseOutcome, ratioTo, type ServerOutcome } from "./outcome.ts";

const COLUMNS = ["commandsPerSecond", "cpuPerCommand", "p50", "p99", "p999", "max", "residentBytes"] as const;

export function resultTable(outcomes: readonly CaseOutcome[]): string {
  const table = new Table({
    head: ["scenario", "server", "commands/s", "±", "CPU", "p50", "p99", "p99.9", "max", "memory", "ratio"],
    colAligns: [
      "left",
      "left",
      "right",
      "right",
      "right",
      "right",
      "right",
      "right",
      "right",
      "right",
      "right",
    ],
    style: { head: [], border: [], compact: true },
  });
  const columnOutcomes = outcomes.filter(({ servers }) =>
    servers.some(({ spreads }) => spreads.commandsPerSecond),
  );
  for (const outcome of columnOutcomes) {
    outcome.servers.forEach((server, index) => {
      table.push([
        index === 0 ? outcome.benchCase.title : "",
        server.server,
        ...columnsOf(server),
        ratioText(outcome, index),
      ]);
    });
  }
  const parts = columnOutcomes.length > 0 ? [table.toString()] : [];
  const details = outcomes.map(detailsOf).filter((text) => text !== "");
  return [...parts, ...details].join("\n");
}

function columnsOf(server: ServerOutcome): string[] {
  if (server.skipped !== undefined) return ["skipped", ...COLUMNS.map(() => "")];
  const throughput = server.spreads.commandsPerSecond;
  const spread = throughput ? ((throughput.highest - throughput.lowest) / 2 / throughput.median) * 100 : 0;
  const texts = COLUMNS.map((name) => {
    const figure = server.spreads[name];
    return figure === undefined ? "" : formatFigure(name, figure.median);
  });
  return [texts[0]!, throughput && throughput.turns > 1 ? `${spread.toFixed(0)} %` : "", ...texts.slice(1)];
}

function ratioText(outcome: CaseOutcome, index: number): string {
  if (index === 0) return "";
  const ratio = ratioTo(outcome, index);
  return ratio === undefined ? "" : `${ratio.toFixed(2)} x`;
}

function detailsOf(outcome: CaseOutcome): string {
  const lines: string[] = [];
  const hasColumns = outcome.servers.some(({ spreads }) => spreads.commandsPerSecond);
  for (const name of FIGURE_NAMES) {
    const isColumn = (COLUMNS as readonly FigureName[]).includes(name);
    if (isColumn && hasColumns) continue;
    const texts = outcome.servers.map(({ server, spreads }) => {
      const figure = spreads[name];
      return figure ? `${server} ${formatFigure(name, figure.median)}` : "";
    });
    if (texts.some((text) => text !== ""))
      lines.push(`  ${FIGURES[name].label}: ${texts.filter((text) => text !== "").join(", ")}`);
  }
  for (const { server, skipped } of outcome.servers) {
    if (skipped !== undefined) lines.push(`  skipped: ${server}: ${skipped}`);
  }
  const [ours, ...others] = outcome.servers;
  if (ours?.sweep) for (const server of [ours, ...others]) lines.push(...sweepLines(server));
  return lines.length === 0 ? "" : [outcome.benchCase.title, ...lines].join("\n");
}

function sweepLines({ server, sweep = [] }: ServerOutcome): string[] {
  return sweep.map(
    ({ rate, commandsPerSecond, p50, p99 }) =>
      `  ${server}: asked ${formatFigure("commandsPerSecond", rate)}, got ${formatFigure("commandsPerSecond", commandsPerSecond)}, ` +
      `p50 ${formatFigure("p50", p50)}, p99 ${formatFigure("p99", p99)}`,
  );
}
