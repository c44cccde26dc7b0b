// Writes the table of figures in docs/figures.md, and the README's rows of it, from lines of results, each between two
// markers, so that they can't drift.
// node bench/readme-table.ts [RESULTS.jsonl]
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { FIGURES, type FigureName, formatFigure } from "./result/figures.ts";
import { lastRun } from "./result/last-run.ts";
import type { ResultLine } from "./result/result-line.ts";
import { runEntry } from "./run-entry.ts";

const BEGIN = "<!-- bench:begin -->";
const END = "<!-- bench:end -->";

/** The rows of the README: an ordinary command, a deep pipeline, and replies that wait for the disk. */
const README_ROWS: ReadonlySet<string> = new Set([
  "put-reserve-delete-50x1-64b",
  "put-50x64-64b",
  "put-50x1-64b-f0",
]);

await runEntry(async () => {
  const [resultsFile = "bench/results/results.jsonl"] = process.argv.slice(2);
  const root = fileURLToPath(new URL("..", import.meta.url));
  process.chdir(root);
  const lines = lastRun(resultsFile);
  const shown = lines.filter(({ key }) => README_ROWS.has(key)).map(firstAndLast);
  if (shown.length < README_ROWS.size) throw new Error(`${resultsFile} lacks a row of the README`);
  replaceTable("docs/figures.md", tableText(lines));
  replaceTable("README.md", tableText(shown));
});

/** Ours as it starts by default, and the server that it is compared with. */
function firstAndLast(line: ResultLine): ResultLine {
  return { ...line, servers: [line.servers[0]!, line.servers.at(-1)!] };
}

function replaceTable(file: string, table: string): void {
  const page = readFileSync(file, "utf8");
  const from = page.indexOf(BEGIN);
  const to = page.indexOf(END);
  if (from < 0 || to < from) throw new Error(`${file} has no ${BEGIN} ... ${END}`);
  writeFileSync(file, `${page.slice(0, from + BEGIN.length)}\n${table}\n${page.slice(to)}`);
}

function tableText(lines: readonly ResultLine[]): string {
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
