// Table of all figures: medians, and the range over the turns.
import { FIGURE_NAMES, FIGURES, type FigureName, formatFigure } from "../result/figures.ts";
import type { Spread } from "../result/measurement.ts";
import type { ResultLine } from "../result/result-line.ts";
import { escapeText } from "./markup.ts";

const COLUMNS: readonly FigureName[] = [
  "commandsPerSecond",
  "cpuPerCommand",
  "p50",
  "p99",
  "p999",
  "max",
  "residentBytes",
];

export function figureTable(lines: readonly ResultLine[]): string {
  const head = ["case", "server", ...COLUMNS.map((name) => FIGURES[name].label), "ratio", "more"];
  const cells = head.map((text) => `<th>${escapeText(text)}</th>`).join("");
  return `<table><thead><tr>${cells}</tr></thead><tbody>${lines.map(rowsOf).join("")}</tbody></table>`;
}

function rowsOf(line: ResultLine): string {
  return line.servers
    .map((server, index) => {
      const title = index === 0 ? `<td rowspan="${line.servers.length}">${escapeText(line.title)}</td>` : "";
      const swatch = `<td class="name"><i class="swatch server${index}"></i>${escapeText(server.server)}</td>`;
      if (server.skipped !== undefined) {
        return `<tr>${title}${swatch}<td colspan="${COLUMNS.length + 2}" class="skipped">skipped: ${escapeText(server.skipped)}</td></tr>`;
      }
      const columns = COLUMNS.map((name) => `<td>${cell(name, server.figures[name])}</td>`).join("");
      const ratio = index > 0 && line.ratios[index - 1] ? `${line.ratios[index - 1]!.toFixed(2)} x` : "";
      const more = FIGURE_NAMES.filter((name) => !COLUMNS.includes(name) && server.figures[name])
        .map((name) => `${FIGURES[name].label} ${formatFigure(name, server.figures[name]!.median)}`)
        .join("; ");
      return `<tr>${title}${swatch}${columns}<td>${ratio}</td><td class="more">${escapeText(more)}</td></tr>`;
    })
    .join("");
}

function cell(name: FigureName, spread: Spread | undefined): string {
  if (!spread) return "";
  const median = escapeText(formatFigure(name, spread.median));
  if (spread.turns < 2 || name !== "commandsPerSecond") return median;
  return `${median}<small>${formatFigure(name, spread.lowest)} – ${formatFigure(name, spread.highest)}</small>`;
}
