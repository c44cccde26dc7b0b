// The command `npm run simulate`: runs the whole server on virtual time over many seeds, and shrinks the first failure.
//
// The seeds are run by a thread (seed-runner.ts) with limits of time and memory: a fault that runs in a circle or eats
// memory without end ends in a failure that names its seed, too.

import { Command, InvalidArgumentError } from "commander";
import { drawnSeed } from "../support/seeded-random.ts";
import { seedNumber, wholeNumber } from "../support/whole-number.ts";
import { runGuarded } from "./guarded-run.ts";
import { parseSteps } from "./shrink.ts";

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
  .option("--seed <n>", "first seed (default: another each time)", seedNumber)
  .option("--steps <m>", "steps of each run", whole, 500)
  .option("--seeds <k>", "seeds to run (default: 1 with --seed, else 1000)", whole)
  .option("--only <steps>", "play only these steps, such as 0-3,17", stepList)
  .option("--no-shrink", "do not look for a shorter run that fails")
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));

command.parse();
const { seed, steps, seeds, only, shrink } = command.opts<Options>();
const firstSeed = seed ?? drawnSeed();
const count = seeds ?? (seed === undefined ? 1000 : 1);
const { exitCode, aborted } = await runGuarded({ firstSeed, count, steps, only, shrink });
if (aborted !== undefined) {
  console.error(`seed ${aborted.seed}, step ${aborted.step} of ${steps}: ${aborted.why}`);
  console.error(`\nagain: npm run simulate -- --seed ${aborted.seed} --steps ${steps} --no-shrink`);
}
process.exitCode = exitCode;
