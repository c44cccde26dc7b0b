// Writes the table of figures in docs/figures.md and the README's rows of it from result lines,
// each between two markers, so that they can't diverge. node bench/readme-table.ts [RESULTS.jsonl]
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { FIGURES, type FigureName, formatFigure } from "./result/figures.ts";
import { lastRun } from "./result/last-run.ts";
import type { ResultLine } from "./result/result-line.ts";
import { runEntry } from "./run-entry.ts";

const BEGIN = "<!-- bench:begin -->";
const END = "<!-- bench:end -->";

/**
 * The rows of the README: an ordinary cycle, a deep pipeline, and replies that wait for the disk.
 */
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
  const shown = lines.filter(({ key }) => README_ROWS.has(key)).map(oneOfEach);
  if (shown.length < README_ROWS.size) throw new Error(`${resultsFile} lacks a row of the README`);
  replaceTable("docs/figures.md", tableText(lines, { withCpu: true }));
  replaceTable("README.md", tableText(shown, { withCpu: false }));
});

/** Ours as it starts by default, and the first server that it is compared with. */
function oneOfEach(line: ResultLine): ResultLine {
  const { ours, theirs } = sides(line);
  return { ...line, servers: [ours[0]!, theirs[0]!] };
}

type ServerLine = ResultLine["servers"][number];

function sides({ servers }: ResultLine): { ours: ServerLine[]; theirs: ServerLine[] } {
  return {
    ours: servers.filter(({ isOurs }) => isOurs),
    theirs: servers.filter(({ isOurs }) => !isOurs),
  };
}

function replaceTable(file: string, table: string): void {
  const page = readFileSync(file, "utf8");
  const from = page.indexOf(BEGIN);
  const to = page.indexOf(END);
  if (from < 0 || to < from) throw new Error(`${file} has no ${BEGIN} ... ${END}`);
  writeFileSync(file, `${page.slice(0, from + BEGIN.length)}\n${table}\n${page.slice(to)}`);
}

function tableText(lines: readonly ResultLine[], more: { withCpu: boolean }): string {
  const { machine: m, generator, run, servers } = lines[0]!;
  const pairs = pairsOf(lines[0]!);
  const head = [
    "",
    ...servers.map(({ server }) => server),
    ...pairs.map(([our, their]) => `${our.server} : ${their.server}`),
    ...(more.withCpu ? servers.map(({ server }) => `${server}, CPU`) : []),
  ];
  const rows = lines.map((line) => [
    line.title,
    ...line.servers.map((server) => figureText(line.headline, server)),
    ...pairsOf(line).map(([our, their]) => ratioText(line.headline, our, their)),
    ...(more.withCpu ? line.servers.map((server) => figureText("cpuPerCommand", server)) : []),
  ]);
  return [
    `| ${head.join(" | ")} |`,
    `|---|${head
      .slice(1)
      .map(() => "---:|")
      .join("")}`,
    ...rows.map((row) => `| ${row.join(" | ")} |`),
    "",
    wrapped(
      `Medians, ${m.cpu}, ${m.cores} cores shared with the ${generator === "native" ? "generator in C" : "Node load workers"}, ` +
        `${m.kernel}, Node ${m.node}, ${run.slice(0, 10)}, commit ${m.commit}.`,
    ),
  ].join("\n");
}

/** Breaks lines before they pass 100 columns, as in the rest of the document. */
function wrapped(text: string): string {
  return text.replace(/(.{1,100})(?:\s|$)/g, "$1\n").trimEnd();
}

/** Each of ours with each that it is compared with. */
function pairsOf(line: ResultLine): [our: ServerLine, their: ServerLine][] {
  const { ours, theirs } = sides(line);
  return ours.flatMap((our) => theirs.map((their): [ServerLine, ServerLine] => [our, their]));
}

/** How many times better ours is. */
function ratioText(name: FigureName, our: ServerLine, their: ServerLine): string {
  const ours = our.figures[name]?.median;
  const theirs = their.figures[name]?.median;
  if (!ours || !theirs) return "";
  return `${(FIGURES[name].better === "more" ? ours / theirs : theirs / ours).toFixed(2)} x`;
}

function figureText(name: FigureName, { skipped, figures }: ServerLine): string {
  if (skipped !== undefined) return "skipped";
  const value = figures[name]?.median;
  if (value === undefined) return "";
  return name === "commandsPerSecond" ? `${formatFigure(name, value)}/s` : formatFigure(name, value);
}
