// End-to-end tests of the bench from options to results, with either load generator.
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BenchCase, TurnContext } from "./case/bench-case.ts";
import { coldNote, selectCases } from "./case/select-cases.ts";
import { contenders, variantContenders } from "./contenders.ts";
import type { LoadSource } from "./load/load-source.ts";
import type { BenchOptions } from "./options.ts";
import { profile } from "./profile/profile.ts";
import { reportPage } from "./report/report-page.ts";
import { goalTable } from "./result/goal-table.ts";
import { machine } from "./result/machine.ts";
import type { CaseOutcome } from "./result/outcome.ts";
import { progress } from "./result/progress.ts";
import { type ResultLine, type RunFacts, resultLine } from "./result/result-line.ts";
import { resultTable } from "./result/table.ts";
import { conclusion, verdicts } from "./result/verdict.ts";
import { runTurns, turnsOf } from "./run-turns.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const RECORD_FILE = fileURLToPath(new URL("./results/results.jsonl", import.meta.url));

export async function bench(options: BenchOptions, load: LoadSource): Promise<void> {
  const directory = workDirectory(options);
  const facts: RunFacts = {
    run: new Date().toISOString(),
    generator: load.name,
    machine: machine(directory),
    flags: process.argv.slice(2).join(" "),
  };
  const flags = {
    binlog: options.binlog !== undefined,
    ...(options.fsync === undefined ? {} : { fsync: options.fsync }),
  };
  try {
    if (options.profile) {
      console.log(machineText(facts));
      await profile(options, load, facts, directory, flags);
      return;
    }
    const outcomes = await runCases(selectCases(options), options, load, directory, flags);
    console.log(`\n${machineText(facts)}\n\n${resultTable(outcomes)}\n`);
    const goals = goalTable(outcomes);
    if (goals !== "") console.log(`${goals}\n`);
    const [first, ...others] = outcomes[0]!.servers;
    const ratioText =
      others.length > 0 ? ` Above 1, the ratio says how many times better ${first!.server} is.` : "";
    console.log(`± is half of the range over the turns.${ratioText}`);
    const note = coldNote(options);
    if (note !== undefined) console.log(note);
    for (const verdict of verdicts(outcomes)) {
      console.log(verdict.text);
      if (!verdict.isGood) process.exitCode = 1;
    }
    const sentence = conclusion(outcomes);
    if (sentence !== "") console.log(`\n${sentence}`);
    const lines = outcomes.map((outcome) => resultLine(facts, outcome));
    writeResults(lines, options);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function runCases(
  cases: BenchCase[],
  options: BenchOptions,
  load: LoadSource,
  directory: string,
  flags: TurnContext["flags"],
): Promise<CaseOutcome[]> {
  const plain = contenders(options);
  const work = cases.map((benchCase) => ({
    benchCase,
    contenders:
      benchCase.variants === undefined ? plain : variantContenders(options, benchCase.variants.flags),
  }));
  if (work.some((each) => each.contenders.length === 0)) throw new Error("There is no server to measure.");
  const turns = work.reduce(
    (sum, each) => sum + turnsOf(each.benchCase, options.turns) * each.contenders.length,
    0,
  );
  const bar = progress(turns);
  const plan = { load, turns: options.turns, directory, flags, progress: bar };
  const outcomes: CaseOutcome[] = [];
  try {
    for (const { benchCase, contenders: servers } of work)
      outcomes.push(await runTurns(benchCase, { ...plan, contenders: servers }));
  } finally {
    bar.stop();
  }
  return outcomes;
}

/**
 * On the disk that --binlog names, else in the checkout: a temporary directory in memory would make
 * syncs free.
 */
function workDirectory(options: BenchOptions): string {
  const parent = options.binlog ?? join(ROOT, ".tmp");
  mkdirSync(parent, { recursive: true });
  const directory = mkdtempSync(join(parent, "bench-"));
  // also after a signal
  process.on("exit", () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

function machineText({ generator, machine: m }: RunFacts): string {
  return (
    `${m.cpu}, ${m.cores} cores, ${m.memoryGib} GiB; ${m.kernel}, TCP ${m.tcp}; Node ${m.node}; logs on ${m.disk}; commit ${m.commit}; ` +
    `load from the ${generator === "native" ? "generator in C" : "Node workers"} on the same machine`
  );
}

function writeResults(lines: ResultLine[], options: BenchOptions): void {
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  if (options.json !== undefined) appendFileSync(options.json, text);
  if (options.record) {
    mkdirSync(dirname(RECORD_FILE), { recursive: true });
    appendFileSync(RECORD_FILE, text);
  }
  if (options.report !== undefined) {
    writeFileSync(options.report, reportPage(lines));
    console.log(`Report: ${options.report}`);
  }
}
