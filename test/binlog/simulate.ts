// The command `npm run simulate:binlog`: the log on a disk in memory that loses, tears, garbles and fails, over many seeds.

import { Command } from "commander";
import { seedNumber, wholeNumber } from "../support/whole-number.ts";
import { simulate } from "./simulation.ts";

const whole = wholeNumber(0, 9_999_999_999);

const command = new Command("simulate:binlog")
  .description(
    "Runs the log on a disk in memory that loses, tears, garbles and fails, with crashes and restarts, all drawn from a seed.\n" +
      "Ends with 0 if nothing was lost, 1 if something was, with the command that plays it again, and 2 on bad options.",
  )
  .option("--seed <n>", "first seed", seedNumber, 1)
  .option("--seeds <k>", "seeds to run (default: 1 with --seed, else 2000)", whole)
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2));

command.parse();
const { seed: from, seeds: asked } = command.opts<{ seed: number; seeds?: number }>();
const seeds = asked ?? (command.getOptionValueSource("seed") === "default" ? 2000 : 1);
const began = performance.now();
let operations = 0;
let recoveries = 0;
let migrated = 0;
let waits = 0;
let failed = 0;
let worstExcessBytes = Number.NEGATIVE_INFINITY;
for (let seed = from; seed < from + seeds; seed++) {
  try {
    const result = await simulate(seed);
    operations += result.operations;
    recoveries += result.recoveries;
    migrated += result.migrated;
    waits += result.waits;
    worstExcessBytes = Math.max(worstExcessBytes, result.worstExcessBytes);
  } catch (error) {
    failed++;
    const text = seeds === 1 && error instanceof Error ? error.stack : String(error);
    console.log(`seed ${seed}: ${text}\n  again: npm run simulate:binlog -- --seed ${seed}`);
    if (failed >= 10) break;
  }
}
const seconds = ((performance.now() - began) / 1000).toFixed(1);
console.log(
  `${seeds} seeds from ${from}: ${failed} failed, ${operations} operations, ${recoveries} recoveries, ` +
    `${migrated} records migrated, ${waits} waits for room, worst disk excess ${worstExcessBytes} bytes, ${seconds} s`,
);
process.exitCode = failed > 0 ? 1 : 0;
