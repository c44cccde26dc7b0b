// npm run stress: real threads on the shared memory of src/ring, with random pauses at every atomic
// operation.

import { InvalidArgumentError } from "commander";
import { campaignCommand, seedOption } from "../support/campaign-command.ts";
import { drawnSeed } from "../support/seeded-random.ts";
import { positiveNumber } from "../support/whole-number.ts";
import { CATALOGUE, type Entry, findPlanted, play } from "./catalogue.ts";
import { outcomeTable } from "./outcome-table.ts";
import { hasPassed } from "./run-case.ts";

const SECONDS_MAX = 86_400;

interface Options {
  readonly seconds: number;
  readonly case: readonly string[];
  readonly seed: number;
  readonly list?: boolean;
}

function caseName(text: string, before: readonly string[] = []): readonly string[] {
  if (!CATALOGUE.some(({ name }) => name === text))
    throw new InvalidArgumentError("There is no such case; --list names them.");
  return [...before, text];
}

const program = campaignCommand(
  "stress",
  "Plays small races on the shared memory of the server's threads, and the whole server with the smallest rings, " +
    "with random pauses at every atomic operation. Each result is looked up in a table of what is allowed. " +
    "Then plants the bugs that each case must find.",
)
  .option(
    "--seconds <n>",
    "how long each case is played; three times that for the server",
    positiveNumber(SECONDS_MAX),
    2,
  )
  .option("--case <name>", "only this case; may be given several times", caseName)
  .addOption(seedOption("another each time; threads repeat themselves only so far"))
  .option("--list", "print the cases and their planted bugs")
  .parse();
const given = program.opts<Partial<Options> & Pick<Options, "seconds">>();
const options: Options = { case: [], seed: drawnSeed(), ...given };

async function hasPlayed(entry: Entry): Promise<boolean> {
  const report = await play(entry, options);
  console.log(`${outcomeTable(report)}\n`);
  return hasPassed(report);
}

async function playPlanted(entry: Entry, planted: string): Promise<boolean> {
  const found = await findPlanted(entry, planted, options.seed);
  const how = found === undefined ? "NOT FOUND" : `found: ${found.split("\n")[0]}`;
  console.log(`${entry.name}, planted: ${planted}\n  ${how}`);
  return found !== undefined;
}

async function main(): Promise<void> {
  const chosen = CATALOGUE.filter(({ name }) => options.case.length === 0 || options.case.includes(name));
  if (options.list) {
    for (const { name, about, planted } of chosen)
      console.log([`${name}: ${about}`, ...planted.map((bug) => `  planted: ${bug}`)].join("\n"));
    return;
  }
  const startedAt = performance.now();
  const failed: string[] = [];
  console.log(`seed ${options.seed}, ${options.seconds} s each\n`);
  for (const entry of chosen) if (!(await hasPlayed(entry))) failed.push(entry.name);
  for (const entry of chosen) {
    for (const planted of entry.planted)
      if (!(await playPlanted(entry, planted))) failed.push(`${entry.name} (${planted})`);
  }
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  const bugs = chosen.reduce((sum, { planted }) => sum + planted.length, 0);
  console.log(
    `\n${chosen.length} cases and ${bugs} planted bugs in ${seconds} s, ${failed.length} failed${failed.map((name) => `\n  ${name}`).join("")}`,
  );
  if (failed.length > 0) console.log(`again: npm run stress -- --seed ${options.seed} --case NAME`);
  process.exitCode = failed.length === 0 ? 0 : 1;
}

await main();
