// The command `npm run simulate`: runs the whole server on virtual time over many seeds, and shrinks the first failure.

import { Command, InvalidArgumentError } from "commander";
import { wholeNumber } from "../support/whole-number.ts";
import { formatSteps, parseSteps, shrink } from "./shrink.ts";
import { simulate } from "./simulation.ts";

const SHRINK_MS_MAX = 60_000;

interface Options {
  readonly seed?: number;
  readonly steps: number;
  readonly seeds?: number;
  readonly only?: ReadonlySet<number>;
  readonly shrink: boolean;
}

const whole = wholeNumber(0, 9_999_999_999);

function stepList(text: string): ReadonlySet<number> {
  const steps = parseSteps(text);
  if (steps === undefined) throw new InvalidArgumentError("It must be a list of steps such as 0-3,17.");
  return steps;
}

const command = new Command("simulate")
  .description(
    "Runs the whole server, its log included, in one process on virtual time: threads, clients, disk and crashes are drawn from a seed.\n" +
      "Ends with 0 if nothing was found, 1 if something was, with the command that plays it again, and 2 on bad options.",
  )
  .option("--seed <n>", "first seed (default: drawn from the clock)", whole)
  .option("--steps <m>", "steps of each run", whole, 500)
  .option("--seeds <k>", "seeds to run (default: 1 with --seed, else 1000)", whole)
  .option("--only <steps>", "play only these steps, such as 0-3,17", stepList)
  .option("--no-shrink", "do not look for a shorter run that fails")
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));

command.parse();
const { seed, steps, seeds, only, shrink: mayShrink } = command.opts<Options>();
const firstSeed = seed ?? Date.now() % 1_000_000_000;
const count = seeds ?? (seed === undefined ? 1000 : 1);

let commands = 0;
let schedulerSteps = 0;
let restarts = 0;
const startedAt = performance.now();
console.log(`seeds ${firstSeed} to ${firstSeed + count - 1}, ${steps} steps each`);
for (let each = firstSeed; each < firstSeed + count; each++) {
  try {
    const result = await simulate({ seed: each, steps, ...(only === undefined ? {} : { only }) });
    commands += result.commands;
    schedulerSteps += result.schedulerSteps;
    restarts += result.restarts;
  } catch (error) {
    console.error(error);
    console.error(`\nagain: npm run simulate -- --seed ${each} --steps ${steps}`);
    if (mayShrink && only === undefined) await showShortest(each);
    process.exit(1);
  }
}
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
console.log(
  `${count} runs, ${commands} commands, ${restarts} restarts, ${schedulerSteps} scheduler steps in ${seconds} s: nothing found`,
);

async function showShortest(failing: number): Promise<void> {
  const shortest = await shrink(failing, steps, SHRINK_MS_MAX);
  console.error(`\nshortest of its kind, ${shortest.only.length} steps: ${shortest.error}`);
  console.error(
    `again: npm run simulate -- --seed ${failing} --steps ${shortest.steps} --only ${formatSteps(shortest.only)}`,
  );
}
