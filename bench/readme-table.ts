// Writes the README's table of figures from lines of results, between two markers, so that it can't drift.
// node bench/readme-table.ts [RESULTS.jsonl] [README.md]
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { FIGURES, type FigureName, formatFigure } from "./result/figures.ts";
import { lastRun } from "./result/last-run.ts";
import type { ResultLine } from "./result/result-line.ts";
import { runEntry } from "./run-entry.ts";

const BEGIN = "<!-- bench:begin -->";
const END = "<!-- bench:end -->";

await runEntry(async () => {
  const [resultsFile = "bench/results/results.jsonl", readmeFile = "README.md"] = process.argv.slice(2);
  const root = fileURLToPath(new URL("..", import.meta.url));
  process.chdir(root);
  const readme = readFileSync(readmeFile, "utf8");
  const from = readme.indexOf(BEGIN);
  const to = readme.indexOf(END);
  if (from < 0 || to < from) throw new Error(`${readmeFile} has no ${BEGIN} ... ${END}`);
  const text = readmeTable(lastRun(resultsFile));
  writeFileSync(readmeFile, `${readme.slice(0, from + BEGIN.length)}\n${text}\n${readme.slice(to)}`);
});

function readmeTable(lines: readonly ResultLine[]): string {
  const { machine: m, generator, run, servers } = lines[0]!;
  const names = servers.map(({ server }) => server);
  const rows = lines.map((line) => {
    const figures = line.servers.map((server) =>
      server.skipped === undefined
        ? figureText(line.headline, server.figures[line.headline]?.median)
        : "skipped",
    );
    const ratios = line.servers.slice(0, -1).map((_, ours) => ratioText(line, ours));
    return `| ${[line.title, ...figures, ...ratios].join(" | ")} |`;
  });
  const head = ["", ...names, ...names.slice(0, -1).map((name) => `${name} : ${names.at(-1)}`)];
  return [
    `| ${head.join(" | ")} |`,
    `|---|${head
      .slice(1)
      .map(() => "---:|")
      .join("")}`,
    ...rows,
    "",
    `Medians, ${m.cpu}, ${m.cores} cores shared with the ${generator === "native" ? "generator in C" : "Node load workers"}, ` +
      `${m.kernel}, Node ${m.node}, ${run.slice(0, 10)}, commit ${m.commit}.`,
  ].join("\n");
}

/** How many times better one server is than the last. */
function ratioText({ servers, headline }: ResultLine, one: number): string {
  const figure = servers[one]!.figures[headline]?.median;
  const last = servers.at(-1)!.figures[headline]?.median;
  if (!figure || !last) return "";
  return `${(FIGURES[headline].better === "more" ? figure / last : last / figure).toFixed(2)} x`;
}

function figureText(name: FigureName, value: number | undefined): string {
  if (value === undefined) return "";
  return name === "commandsPerSecond" ? `${formatFigure(name, value)}/s` : formatFigure(name, value);
}
