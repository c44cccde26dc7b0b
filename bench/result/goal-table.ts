// Goals of the cases and their results as Markdown, one row per case.
import { type FigureName, formatCount, formatFigure } from "./figures.ts";
import type { Spread } from "./measurement.ts";
import { type CaseOutcome, ratioTo, type ServerOutcome } from "./outcome.ts";

/** Empty if no case has a goal, or there is no server to compare with. */
export function goalTable(outcomes: readonly CaseOutcome[]): string {
  const rows = outcomes.filter(({ benchCase }) => benchCase.goal !== undefined);
  const [first] = rows;
  const rivals = first?.servers.filter(({ isOurs }) => !isOurs) ?? [];
  if (first === undefined || rivals.length === 0) return "";
  const head = [
    "median (lowest–highest), CPU per command",
    ...first.servers.map(({ server }) => server),
    ...rivals.map(({ server }) => `: ${server}`),
    "needed",
    "aim",
    "reached",
  ];
  return markdown([head, ...rows.map(rowOf)]);
}

function rowOf(outcome: CaseOutcome): string[] {
  const { benchCase, servers } = outcome;
  const { needed, aim } = benchCase.goal!;
  const ratios = servers.flatMap(({ isOurs }, index) => (isOurs ? [] : [ratioTo(outcome, index)]));
  return [
    benchCase.title,
    ...servers.map((server) => figureText(server, benchCase.headline)),
    ...ratios.map((ratio) => ratio?.toFixed(2) ?? ""),
    needed.join(" / "),
    aim.join(" / "),
    needed.map((least, rival) => reachedText(ratios[rival], least, aim[rival]!)).join(" / "),
  ];
}

function figureText({ spreads, skipped }: ServerOutcome, headline: FigureName): string {
  const figure = spreads[headline];
  if (figure === undefined) return skipped === undefined ? "" : "skipped";
  const cpu = spreads.cpuPerCommand;
  const range = figure.turns > 1 ? ` (${rangeText(figure)})` : "";
  return `${formatCount(figure.median)}${range}${cpu ? `, ${formatFigure("cpuPerCommand", cpu.median)}` : ""}`;
}

const rangeText = ({ lowest, highest }: Spread): string => `${formatCount(lowest)}–${formatCount(highest)}`;

function reachedText(ratio: number | undefined, needed: number, aim: number): string {
  if (ratio === undefined) return "?";
  if (ratio >= aim) return "aim";
  return ratio >= needed ? "yes" : "NO";
}

/** The first row is the head. */
function markdown(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const lines = rows.map(
    (row) => `| ${row.map((cell, column) => cell.padEnd(widths[column]!)).join(" | ")} |`,
  );
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`;
  return [lines[0], rule, ...lines.slice(1)].join("\n");
}
