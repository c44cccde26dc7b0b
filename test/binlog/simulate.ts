// Command `npm run simulate:binlog`: the log on an in-memory disk that loses, tears, corrupts and
// fails, over many seeds.

import "../support/checked.ts";
import { campaignCommand, seedOption, seedsOption } from "../support/campaign-command.ts";
import { simulate } from "./simulation.ts";

const command = campaignCommand(
  "simulate:binlog",
  "Runs the log on a disk in memory that loses, tears, garbles and fails, with crashes and restarts, all drawn from a seed.",
)
  .addOption(seedOption("1"))
  .addOption(seedsOption("1 with --seed, else 2000"));

command.parse();
const { seed, seeds: asked } = command.opts<{ seed?: number; seeds?: number }>();
const from = seed ?? 1;
const seeds = asked ?? (seed === undefined ? 2000 : 1);
const began = performance.now();
let operations = 0;
let recoveries = 0;
let migrated = 0;
let waits = 0;
let backups = 0;
let failed = 0;
let worstExcessBytes = Number.NEGATIVE_INFINITY;
for (let seed = from; seed < from + seeds; seed++) {
  try {
    const result = await simulate(seed);
    operations += result.operations;
    recoveries += result.recoveries;
    migrated += result.migrated;
    waits += result.waits;
    backups += result.backups;
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
    `${migrated} records migrated, ${waits} waits for room, ${backups} backups restored, worst disk excess ${worstExcessBytes} bytes, ${seconds} s`,
);
process.exitCode = failed > 0 ? 1 : 0;
