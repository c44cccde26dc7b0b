// `npm run simulate:replica -- --seeds 1000`: lives of a group from many seeds; `--bug`, `--check` and `--trace` look closer.

import { Command } from "commander";
import { CHECKS, type Check } from "./faulty-log.ts";
import { BUGS, type Bug } from "./planted-bugs.ts";
import { type GroupResult, simulateGroup } from "./simulation.ts";

const command = new Command("simulate:replica")
  .option("--seeds <n>", "how many", "500")
  .option("--first <seed>", "the first one", "1")
  .option("--steps <n>", "events of a life", "6000")
  .option("--check <kind>", `how the log checks what is expected: ${CHECKS.join(", ")} (drawn)`)
  .option("--bug <name>", `plant one: ${BUGS.join("; ")}`)
  .option("--trace", "print what happens");
command.parse();
const options = command.opts<{
  seeds: string;
  first: string;
  steps: string;
  check?: Check;
  bug?: Bug;
  trace?: true;
}>();
const first = Number(options.first);
const sum: Partial<GroupResult> = {};
const startedAt = performance.now();
let failed = 0;
for (let seed = first; seed < first + Number(options.seeds) && failed < 3; seed++) {
  try {
    const result = await simulateGroup({
      seed,
      steps: Number(options.steps),
      ...(options.check === undefined ? {} : { check: options.check }),
      ...(options.bug === undefined ? {} : { bug: options.bug }),
      ...(options.trace === undefined ? {} : { trace: (line) => console.log(line) }),
    });
    for (const key of Object.keys(result) as (keyof GroupResult)[]) sum[key] = (sum[key] ?? 0) + result[key];
  } catch (error) {
    failed++;
    console.error(error instanceof Error ? (error.stack ?? error.message) : error);
    console.error(`again: npm run simulate:replica -- --first ${seed} --seeds 1 --steps ${options.steps}`);
    if (options.bug !== undefined) break;
  }
}
const seconds = Math.round((performance.now() - startedAt) / 1000);
console.log(`${options.seeds} seeds in ${seconds} s, ${failed} failed: ${JSON.stringify(sum)}`);
process.exitCode = failed === 0 ? 0 : 1;
