// Command `npm run mutate`: changes the source in small ways, one at a time, and tells which
// changes no test notices.
//
// A room has hundreds or thousands of mutants. Within the time given, as many as fit are drawn from
// a seed; if not all fit, the share of them that is killed is an estimate for the room.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError, Option } from "commander";
import { API } from "typescript/unstable/sync";
import { campaignCommand, seedOption } from "../../support/campaign-command.ts";
import { drawnSeed, SeededRandom } from "../../support/seeded-random.ts";
import { wholeNumber } from "../../support/whole-number.ts";
import { ROOT } from "./covered.ts";
import { Judge, type Verdict } from "./judge.ts";
import { type Mutant, mutantsOf } from "./mutants.ts";
import { changedSince, ROOMS, STAGES, type Stage, sourcesOf } from "./rooms.ts";

interface Options {
  readonly room: readonly string[];
  readonly time: number;
  readonly file?: string;
  readonly since?: string;
  readonly again?: string;
  readonly seed?: number;
  readonly stages: readonly Stage[];
  readonly out?: string;
  readonly mutants?: number;
}

interface RoomResult {
  readonly room: string;
  readonly all: number;
  readonly verdicts: readonly Verdict[];
}

function listOf<Word extends string>(words: readonly Word[]): (text: string) => readonly Word[] {
  return (text) => {
    const given = text.split(",") as Word[];
    const unknown = given.find((word) => !words.includes(word));
    if (unknown !== undefined) throw new InvalidArgumentError(`"${unknown}" is none of ${words.join(", ")}.`);
    return given;
  };
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
  .addOption(
    new Option("--room <names>", `rooms of src, separated by commas: ${ROOMS.join(", ")}`)
      .argParser(listOf(ROOMS))
      .default(ROOMS, "all"),
  )
  .addOption(
    new Option("--time <t>", "how long for each room, such as 90s, 20m or 2h")
      .argParser(duration)
      .default(600_000, "10m"),
  )
  .option("--mutants <n>", "at most so many of each room", wholeNumber(1, 1e6))
  .option("--file <part>", "only files whose path contains this")
  .option("--since <ref>", "only lines that differ from this commit")
  .option("--again <file>", "only the survivors in what --out wrote; the sources must be the same")
  .addOption(
    new Option("--stages <names>", `tests to meet: ${STAGES.join(", ")}`)
      .argParser(listOf(STAGES))
      .default(STAGES, "all"),
  )
  .option("--out <file>", "write the verdicts there as JSON")
  .addOption(seedOption());
command.parse();
const options = command.opts<Options>();
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

/** The mutants that the options let pass. */
function chosenOf(mutants: readonly Mutant[]): Mutant[] {
  const { file = "", since, again } = options;
  const changed = since === undefined ? undefined : changedSince(since);
  const survivors = again === undefined ? undefined : survivorsIn(again);
  return mutants.filter(
    (mutant) =>
      mutant.file.includes(file) &&
      (changed === undefined || changed.get(mutant.file)?.(mutant.line) === true) &&
      (survivors === undefined || survivors.has(keyOf(mutant))),
  );
}

function survivorsIn(path: string): ReadonlySet<string> {
  const { results } = JSON.parse(readFileSync(path, "utf8")) as { results: RoomResult[] };
  const verdicts = results.flatMap((each) => each.verdicts);
  return new Set(verdicts.filter(({ by }) => by === undefined).map(({ mutant }) => keyOf(mutant)));
}

const keyOf = ({ file, start, end, replacement }: Mutant): string => `${file} ${start} ${end} ${replacement}`;

async function mutateRoom(room: string, mutants: readonly Mutant[]): Promise<Verdict[]> {
  const chosen = chosenOf(mutants);
  console.log(`${room}: ${chosen.length} of ${mutants.length} mutants`);
  const judge = new Judge(room, folder, seed, options.stages);
  const endsAtMs = performance.now() + options.time;
  const verdicts: Verdict[] = [];
  for (const mutant of shuffled(chosen, new SeededRandom(seed)).slice(0, options.mutants)) {
    if (performance.now() > endsAtMs) break;
    const verdict = await judge.judge(mutant);
    verdicts.push(verdict);
    const { by, note, kept } = verdict;
    const how = by === undefined ? (kept === undefined ? "SURVIVED" : "kept") : `killed by ${by}`;
    console.log(`  ${how}: ${mutant.file}:${mutant.line}  ${mutant.what}  (${kept ?? note})`);
  }
  return verdicts;
}

function summary({ room, all, verdicts }: RoomResult): string {
  const killed = verdicts.filter(({ by }) => by !== undefined).length;
  const kept = verdicts.filter((each) => each.kept !== undefined).length;
  const judged = verdicts.length - kept;
  const share = judged === 0 ? 0 : killed / judged;
  // Of a sample: two standard errors.
  const error = judged === 0 || judged + kept === all ? 0 : 2 * Math.sqrt((share * (1 - share)) / judged);
  const percent = (value: number): string => `${(100 * value).toFixed(1)} %`;
  const stages = STAGES.map((stage) => `${stage} ${verdicts.filter(({ by }) => by === stage).length}`);
  const endless = verdicts.filter((each) => each.endless).length;
  return (
    `${room}: ${verdicts.length} of ${all} mutants tried, ${killed} killed ` +
    `(${stages.join(", ")}; ${endless} of them without end), ` +
    `${kept} kept with a reason, ${judged - killed} survived: ` +
    `${percent(share)} ± ${percent(error)} of those not kept`
  );
}

console.log(`seed ${seed}`);
const results: RoomResult[] = [];
try {
  for (const [room, mutants] of allMutants(options.room)) {
    results.push({ room, all: mutants.length, verdicts: await mutateRoom(room, mutants) });
    if (options.out !== undefined)
      writeFileSync(options.out, `${JSON.stringify({ seed, results }, undefined, 1)}\n`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(`\n${results.map(summary).join("\n")}`);
