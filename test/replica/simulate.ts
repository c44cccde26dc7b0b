// `npm run simulate:replica -- --seeds 1000`: lives of a group from many seeds; `--bug`, `--check`
// and `--trace` look closer.

import "../support/checked.ts";
import { Option } from "commander";
import { campaignCommand, seedOption, seedsOption } from "../support/campaign-command.ts";
import { wholeNumber } from "../support/whole-number.ts";
import { CHECKS, type Check } from "./faulty-log.ts";
import { BUGS, type Bug } from "./planted-bugs.ts";
import { type GroupResult, simulateGroup } from "./simulation.ts";

const command = campaignCommand(
  "simulate:replica",
  "Runs a group of servers on virtual time: crashes, partitions and a shared log that misbehaves, all drawn from a seed.",
)
  .addOption(seedOption("1"))
  .addOption(seedsOption("1 with --seed, else 500"))
  .option("--steps <n>", "events of a life", wholeNumber(1, 9_999_999_999), 10_000)
  .addOption(
    new Option("--check <kind>", "how the log checks what is expected (default: drawn)").choices(CHECKS),
  )
  .addOption(new Option("--bug <name>", "plant a bug").choices(BUGS))
  .option("--trace", "print what happens");
command.parse();
const options = command.opts<{
  seed?: number;
  seeds?: number;
  steps: number;
  check?: Check;
  bug?: Bug;
  trace?: true;
}>();
const first = options.seed ?? 1;
const seeds = options.seeds ?? (options.seed === undefined ? 500 : 1);
const sum: Partial<GroupResult> = {};
const startedAt = performance.now();
let failed = 0;
for (let seed = first; seed < first + seeds && failed < 3; seed++) {
  try {
    const result = await simulateGroup({
      seed,
      steps: options.steps,
      ...(options.check === undefined ? {} : { check: options.check }),
      ...(options.bug === undefined ? {} : { bug: options.bug }),
      ...(options.trace === undefined ? {} : { trace: (line) => console.log(line) }),
    });
    for (const key of Object.keys(result) as (keyof GroupResult)[]) sum[key] = (sum[key] ?? 0) + result[key];
  } catch (error) {
    failed++;
    console.error(error instanceof Error ? (error.stack ?? error.message) : error);
    console.error(`again: npm run simulate:replica -- --seed ${seed} --steps ${options.steps}`);
    if (options.bug !== undefined) break;
  }
}
const seconds = Math.round((performance.now() - startedAt) / 1000);
console.log(`${seeds} seeds in ${seconds} s, ${failed} failed: ${JSON.stringify(sum)}`);
process.exitCode = failed === 0 ? 0 : 1;
