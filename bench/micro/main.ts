// npm run bench:micro: the cost of the server's parts in isolation.
import Table from "cli-table3";
import { Command } from "commander";
import { positiveNumber, words } from "../options.ts";
import { formatCount } from "../result/figures.ts";
import { runEntry } from "../run-entry.ts";
import { microBenchmarksNamed } from "./catalogue.ts";
import { type MicroResult, measure } from "./micro-benchmark.ts";

interface MicroOptions {
  readonly only?: string[];
  readonly rounds: number;
  readonly json: boolean;
}

await runEntry(async () => {
  const { only, rounds, json } = parseOptions();
  const results: MicroResult[] = [];
  for (const benchmark of microBenchmarksNamed(only)) {
    if (process.stderr.isTTY) console.error(`${benchmark.subject}: ${benchmark.name}`);
    results.push(await measure(benchmark, benchmark.operations, rounds));
  }
  console.log(json ? JSON.stringify(results, null, 2) : tableOf(results));
});

function parseOptions(): MicroOptions {
  return new Command("npm run bench:micro --")
    .description("Measures the server's parts by themselves: medians of several rounds.")
    .option("--only <names>", "parts to measure, with commas between: parser, ring, doorbell, ...", words)
    .option("--rounds <n>", "measured rounds of each", positiveNumber, 7)
    .option("--json", "print JSON instead of a table", false)
    .allowExcessArguments(false)
    .parse()
    .opts<MicroOptions>();
}

function tableOf(results: readonly MicroResult[]): string {
  const table = new Table({
    head: ["part", "operation", "ns/op", "±", "lowest", "op/s"],
    colAligns: ["left", "left", "right", "right", "right", "right"],
    style: { head: [], border: [], compact: true },
  });
  for (const result of results) {
    const { subject, name, nsPerOperation: ns, lowestNs, highestNs, operationsPerSecond } = result;
    const spread = ((highestNs - lowestNs) / 2 / ns) * 100;
    table.push([
      subject,
      name,
      ns.toFixed(ns < 100 ? 1 : 0),
      `${spread.toFixed(0)} %`,
      lowestNs.toFixed(lowestNs < 100 ? 1 : 0),
      formatCount(operationsPerSecond),
    ]);
  }
  return table.toString();
}
