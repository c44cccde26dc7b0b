// Writes the table of figures in docs/figures.md and the README's rows of it from result lines,
// each between two markers, so that they can't diverge. With the results of several machines, a
// figure is a range over them. node bench/readme-table.ts [RESULTS.jsonl ...]
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { FIGURES, type FigureName, formatFigure } from "./result/figures.ts";
import { lastRun } from "./result/last-run.ts";
import type { ResultLine } from "./result/result-line.ts";
import { rangeText } from "./result/verdict.ts";
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
  const files = process.argv.slice(2);
  if (files.length === 0) files.push("bench/results/results.jsonl");
  const root = fileURLToPath(new URL("..", import.meta.url));
  process.chdir(root);
  const runs = files.map(lastRun);
  const shown = runs.map((lines) => lines.filter(({ key }) => README_ROWS.has(key)).map(oneOfEach));
  if (shown[0]!.length < README_ROWS.size) throw new Error(`${files[0]} lacks a row of the README`);
  replaceTable("docs/figures.md", tableText(runs));
  replaceTable("README.md", tableText(shown));
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

/** Each run is of another machine. The rows are those of the first. */
function tableText(runs: readonly (readonly ResultLine[])[]): string {
  const rows = runs[0]!.map((first) => {
    const lines = runs.flatMap((run) => run.find(({ key }) => key === first.key) ?? []);
    return { first, lines };
  });
  const [{ first: any }] = rows as [(typeof rows)[number]];
  const pairs = pairsOf(any);
  const head = [
    "",
    ...pairs.map(([our, their]) => `${our.server} : ${their.server}`),
    ...any.servers.map(({ server }) => `${server}, CPU`),
    ...any.servers.map(({ server }) => server),
  ];
  const texts = rows.map(({ first: { title, headline }, lines }) => [
    title,
    ...pairs.map((_, pair) => rangeOf(lines, (line) => ratioOf(headline, pairsOf(line)[pair]), " x")),
    ...any.servers.map((_, index) => figuresText(lines, index, "cpuPerCommand")),
    ...any.servers.map((_, index) => figuresText(lines, index, headline)),
  ]);
  const range = runs.length === 1 ? "" : "; a range spans the machines, a single figure is of the first";
  return [
    `| ${head.join(" | ")} |`,
    `|---|${"---:|".repeat(head.length - 1)}`,
    ...texts.map((row) => `| ${row.join(" | ")} |`),
    "",
    wrapped(`Medians${range}. ${runs.map(([line]) => machineText(line!)).join(" ")}`),
  ].join("\n");
}

function machineText({ machine: m, generator, run }: ResultLine): string {
  const load = generator === "native" ? "generator in C" : "Node load workers";
  const tcp = m.tcp === undefined ? "" : `, TCP ${m.tcp}`;
  return `${m.cpu}, ${m.cores} cores shared with the ${load}, ${m.kernel}${tcp}, Node ${m.node}, ${run.slice(0, 10)}, commit ${m.commit}.`;
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

/** How many times better ours is; undefined if one has no figure. */
function ratioOf(name: FigureName, pair: readonly ServerLine[] | undefined): number | undefined {
  const [ours, theirs] = pair?.map(({ figures }) => figures[name]?.median) ?? [];
  if (!ours || !theirs) return undefined;
  return FIGURES[name].better === "more" ? ours / theirs : theirs / ours;
}

function rangeOf(
  lines: readonly ResultLine[],
  figureOf: (line: ResultLine) => number | undefined,
  unit: string,
): string {
  const values = lines.map(figureOf).filter((value) => value !== undefined);
  return values.length === 0 ? "" : `${rangeText(values)}${unit}`;
}

/** A server's figure on each machine, from the lowest to the highest. */
function figuresText(lines: readonly ResultLine[], index: number, name: FigureName): string {
  const servers = lines.flatMap(({ servers: all }) => all[index] ?? []);
  const values = servers.flatMap(({ figures }) => figures[name]?.median ?? []);
  if (values.length === 0) return servers.some(({ skipped }) => skipped !== undefined) ? "skipped" : "";
  const unit = name === "commandsPerSecond" ? "/s" : "";
  const textOf = (value: number): string => `${formatFigure(name, value)}${unit}`;
  const [low, high] = [textOf(Math.min(...values)), textOf(Math.max(...values))];
  const shared = high.slice(high.lastIndexOf(" "));
  return low === high ? low : `${low.endsWith(shared) ? low.slice(0, -shared.length) : low} to ${high}`;
}
