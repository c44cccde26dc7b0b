// Command `npm run mutate`: changes the source in small ways, one at a time, and tells which
// changes no test notices.
//
// Each mutant meets first the unit tests that execute its code, the quickest first, then some seeds
// of the simulators. A room has thousands of mutants: within the time given, as many as fit are
// drawn from a seed, and the share of them that is killed is an estimate for the room.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { InvalidArgumentError } from "commander";
import { API } from "typescript/unstable/sync";
import { campaignCommand, seedOption } from "../../support/campaign-command.ts";
import { drawnSeed, SeededRandom } from "../../support/seeded-random.ts";
import { wholeNumber } from "../../support/whole-number.ts";
import { coverageOf, executes, ROOT, runChild, type TestFile } from "./covered.ts";
import { applied, type Mutant, mutantsOf } from "./mutants.ts";
import { changedSince, ROOMS, sourcesOf, testsOf } from "./rooms.ts";

/** A test file that takes longer by itself is not run for each mutant. */
const TEST_MS_MAX = 120_000;
/** A mutant may take so many times as long as its tests do, and some seconds besides. */
const SLOWER = 4;
const GRACE_MS = 8_000;
const SEEDS_MS_MAX = 180_000;
const SEEDS = "test/proof/mutation/seeds.ts";

interface Options {
  readonly room: readonly string[];
  readonly time: number;
  readonly since?: string;
  readonly seed?: number;
  readonly unit: boolean;
  readonly out?: string;
}

export interface Verdict {
  readonly mutant: Mutant;
  readonly by: "test" | "timeout" | "seeds" | undefined;
  readonly note: string;
}

function roomList(text: string): string[] {
  const rooms = text.split(",");
  const unknown = rooms.find((room) => !ROOMS.includes(room));
  if (unknown !== undefined) throw new InvalidArgumentError(`"${unknown}" is none of ${ROOMS.join(", ")}.`);
  return rooms;
}

function duration(text: string): number {
  const [, count, unit] = /^(\d+)(s|m|h)$/.exec(text) ?? [];
  if (count === undefined) throw new InvalidArgumentError(`"${text}" is no time such as 90s, 20m or 2h.`);
  return Number(count) * { s: 1000, m: 60_000, h: 3_600_000 }[unit as "s" | "m" | "h"];
}

const command = campaignCommand(
  "mutate",
  "Changes the code in small ways, one at a time, and tells which changes no test notices.",
)
  .option("--room <names>", `rooms of src, separated by commas: ${ROOMS.join(", ")}`, roomList, ROOMS)
  .option("--time <t>", "how long for each room, such as 90s, 20m or 2h", duration, 600_000)
  .option("--since <ref>", "only lines that differ from this commit")
  .option("--no-unit", "only the seeds of the simulators")
  .option("--out <file>", "write the verdicts there as JSON")
  .addOption(seedOption())
  .option("--mutants <n>", "at most so many of each room", wholeNumber(1, 1e6));
command.parse();
const options = command.opts<Options & { mutants?: number }>();
const seed = options.seed ?? drawnSeed();
const folder = mkdtempSync(join(tmpdir(), "runnerbean-mutants-"));

function allMutants(rooms: readonly string[]): Map<string, Mutant[]> {
  const api = new API({ cwd: ROOT });
  try {
    const tsconfig = join(ROOT, "tsconfig.json");
    const { program } = api.updateSnapshot({ openProjects: [tsconfig] }).getProject(tsconfig)!;
    const ofRoom = (room: string): Mutant[] =>
      sourcesOf(room).flatMap((file) => mutantsOf(file, program.getSourceFile(join(ROOT, file))!));
    return new Map(rooms.map((room) => [room, ofRoom(room)]));
  } finally {
    api.close();
  }
}

function shuffled<T>(items: readonly T[], random: SeededRandom): T[] {
  const all = [...items];
  for (let at = all.length - 1; at > 0; at--) {
    const other = random.below(at + 1);
    [all[at], all[other]] = [all[other]!, all[at]!];
  }
  return all;
}

async function testFiles(room: string): Promise<TestFile[]> {
  const files: TestFile[] = [];
  for (const path of testsOf(room)) {
    const file = await coverageOf(path, TEST_MS_MAX);
    if (file === undefined) console.log(`  left out: ${path} fails or takes long in a process with others`);
    else files.push(file);
  }
  return files.sort((a, b) => a.ms - b.ms);
}

async function judge(mutant: Mutant, tests: readonly TestFile[]): Promise<Verdict> {
  const source = join(ROOT, mutant.file);
  const text = join(folder, mutant.file);
  mkdirSync(dirname(text), { recursive: true });
  writeFileSync(text, applied(readFileSync(source, "utf8"), mutant));
  const url = pathToFileURL(source).href;
  const env = { MUTANT_URL: url, MUTANT_TEXT: text };
  const fitting = options.unit ? tests.filter((each) => executes(each, url, mutant.start)) : [];
  if (fitting.length > 0) {
    const usualMs = fitting.reduce((sum, { ms }) => sum + ms, 0);
    const { code, said } = await runChild(
      fitting.map(({ path }) => path),
      env,
      SLOWER * usualMs + GRACE_MS,
    );
    if (code === "timeout") return { mutant, by: "timeout", note: "no end" };
    if (code !== 0)
      return { mutant, by: "test", note: said.match(/^FAILED .*$/m)?.[0] ?? said.trim().split("\n")[0]! };
  }
  const { code, said } = await runChild([SEEDS], env, SEEDS_MS_MAX);
  if (code === 0)
    return {
      mutant,
      by: undefined,
      note: fitting.length === 0 ? "no unit test executes it" : `${fitting.length} test files`,
    };
  return {
    mutant,
    by: "seeds",
    note: code === "timeout" ? "no end" : (said.match(/^FAILED .*$/m)?.[0] ?? ""),
  };
}

async function mutateRoom(room: string, mutants: readonly Mutant[]): Promise<Verdict[]> {
  const changed = options.since === undefined ? undefined : changedSince(options.since);
  const chosen = mutants.filter(
    ({ file, line }) => changed === undefined || changed.get(file)?.(line) === true,
  );
  console.log(`${room}: ${chosen.length} mutants${changed === undefined ? "" : " in changed lines"}`);
  if (chosen.length === 0) return [];
  const tests = await testFiles(room);
  const endsAtMs = performance.now() + options.time;
  const verdicts: Verdict[] = [];
  for (const mutant of shuffled(chosen, new SeededRandom(seed)).slice(0, options.mutants)) {
    if (performance.now() > endsAtMs) break;
    const verdict = await judge(mutant, tests);
    verdicts.push(verdict);
    const how = verdict.by === undefined ? "SURVIVED" : `killed by ${verdict.by}`;
    console.log(`  ${how}: ${mutant.file}:${mutant.line}  ${mutant.what}  (${verdict.note})`);
  }
  return verdicts;
}

function summary(room: string, all: number, verdicts: readonly Verdict[]): string {
  const killed = verdicts.filter(({ by }) => by !== undefined).length;
  const of = (by: Verdict["by"]): number => verdicts.filter((each) => each.by === by).length;
  const share = verdicts.length === 0 ? 0 : killed / verdicts.length;
  // Of a sample: two standard errors.
  const error = verdicts.length === 0 ? 0 : 2 * Math.sqrt((share * (1 - share)) / verdicts.length);
  const percent = (value: number): string => `${(100 * value).toFixed(1)} %`;
  return (
    `${room}: ${verdicts.length} of ${all} mutants tried, ${killed} killed (${percent(share)} ± ${percent(error)}; ` +
    `${of("test")} by unit tests, ${of("timeout")} without end, ${of("seeds")} by seeds), ${of(undefined)} survived`
  );
}

console.log(`seed ${seed}`);
const results: { room: string; all: number; verdicts: Verdict[] }[] = [];
try {
  for (const [room, mutants] of allMutants(options.room))
    results.push({ room, all: mutants.length, verdicts: await mutateRoom(room, mutants) });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(`\n${results.map(({ room, all, verdicts }) => summary(room, all, verdicts)).join("\n")}`);
if (options.out !== undefined)
  writeFileSync(options.out, `${JSON.stringify({ seed, results }, undefined, 1)}\n`);
