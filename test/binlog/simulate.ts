// Runs the simulation of the binlog over many seeds:  node test/binlog/simulate.ts --seeds 2000 [--from 1] [--seed N]

import { parseArgs } from "node:util";
import { simulate } from "./simulation.ts";

const { values } = parseArgs({
  options: { seeds: { type: "string" }, from: { type: "string" }, seed: { type: "string" } },
});
const from = Number(values.seed ?? values.from ?? 1);
const seeds = values.seed === undefined ? Number(values.seeds ?? 2000) : 1;
const began = performance.now();
let operations = 0;
let recoveries = 0;
let migrated = 0;
let failed = 0;
let worstExcessBytes = Number.NEGATIVE_INFINITY;
for (let seed = from; seed < from + seeds; seed++) {
  try {
    const result = await simulate(seed);
    operations += result.operations;
    recoveries += result.recoveries;
    migrated += result.migrated;
    worstExcessBytes = Math.max(worstExcessBytes, result.worstExcessBytes);
  } catch (error) {
    failed++;
    const text = seeds === 1 && error instanceof Error ? error.stack : String(error);
    console.log(`seed ${seed}: ${text}\n  again: node test/binlog/simulate.ts --seed ${seed}`);
    if (failed >= 10) break;
  }
}
const seconds = ((performance.now() - began) / 1000).toFixed(1);
console.log(
  `${seeds} seeds from ${from}: ${failed} failed, ${operations} operations, ${recoveries} recoveries, ` +
    `${migrated} records migrated, worst disk excess ${worstExcessBytes} bytes, ${seconds} s`,
);
process.exitCode = failed > 0 ? 1 : 0;
