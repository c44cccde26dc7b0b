// Command `npm run simulate`: runs the whole server on virtual time over many seeds, and shrinks
// the first failure.
//
// A thread (seed-runner.ts) runs the seeds with limits of time and memory, so that even an endless
// loop or a memory leak ends in a failure that names its seed.

import "../support/checked.ts";
import { InvalidArgumentError } from "commander";
import { campaignCommand, seedOption, seedsOption } from "../support/campaign-command.ts";
import { drawnSeed } from "../support/seeded-random.ts";
import { wholeNumber } from "../support/whole-number.ts";
import { runGuarded } from "./guarded-run.ts";
import { simulateHttp } from "./http-simulation.ts";
import { parseSteps } from "./shrink.ts";

interface Options {
  readonly seed?: number;
  readonly steps: number;
  readonly seeds?: number;
  readonly only?: ReadonlySet<number>;
  readonly shrink: boolean;
  readonly http: boolean;
}

const whole = wholeNumber(0, 9_999_999_999);

function stepList(text: string): ReadonlySet<number> {
  const steps = parseSteps(text);
  if (steps === undefined) throw new InvalidArgumentError("It must be a list of steps such as 0-3,17.");
  return steps;
}

const command = campaignCommand(
  "simulate",
  "Runs the whole server, its log included, in one process on virtual time: threads, clients, disk and crashes are drawn from a seed.",
)
  .addOption(seedOption())
  .addOption(seedsOption("1 with --seed, else 1000"))
  .option("--steps <m>", "steps of each run", whole, 500)
  .option("--only <steps>", "play only these steps, such as 0-3,17", stepList)
  .option("--no-shrink", "do not look for a shorter run that fails")
  .option("--http", "clients over HTTP and of beanstalkd's protocol on the same tubes, without a log", false);

command.parse();
const { seed, steps, seeds, only, shrink, http } = command.opts<Options>();
const firstSeed = seed ?? drawnSeed();
const count = seeds ?? (seed === undefined ? 1000 : 1);
process.exitCode = http ? await runHttp() : await runAll();

async function runAll(): Promise<number> {
  const { exitCode, aborted } = await runGuarded({ firstSeed, count, steps, only, shrink });
  if (aborted !== undefined) {
    console.error(`seed ${aborted.seed}, step ${aborted.step} of ${steps}: ${aborted.why}`);
    console.error(`\nagain: npm run simulate -- --seed ${aborted.seed} --steps ${steps} --no-shrink`);
  }
  return exitCode;
}

async function runHttp(): Promise<number> {
  const sum = { puts: 0, deletes: 0, leases: 0, ended: 0, abandoned: 0 };
  for (let each = firstSeed; each < firstSeed + count; each++) {
    try {
      const result = await simulateHttp({ seed: each, steps });
      for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += result[key];
    } catch (error) {
      console.error((error as Error).message);
      console.error(`\nagain: npm run simulate -- --http --seed ${each} --steps ${steps}`);
      return 1;
    }
  }
  const facts = Object.entries(sum).map(([what, times]) => `${times} ${what}`);
  console.log(`${count} seeds from ${firstSeed}, ${steps} steps each: ${facts.join(", ")}`);
  return 0;
}
