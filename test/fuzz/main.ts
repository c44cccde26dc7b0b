// `npm run fuzz`: all fuzzers for a minute, from a printed seed. Exits with 1 after a finding.

import { existsSync } from "node:fs";
import { NEEDS } from "../support/machine/need.ts";
import { topologyFlags } from "../support/topologies.ts";
import { BytesInProcess, BytesToServer } from "./bytes-fuzzer.ts";
import { describeFinding, runCampaign, writeFinding } from "./campaign.ts";
import { Coverage } from "./coverage.ts";
import type { Fuzzer, FuzzerName } from "./fuzzer.ts";
import { GrammarFuzzer } from "./grammar-fuzzer.ts";
import { type FuzzOptions, parseFuzzOptions } from "./options.ts";
import { SplittingInProcess, SplittingToServer } from "./splitting-fuzzer.ts";

/** A grammar run of so many conversations must have seen every core command and reply. */
const FULL_RUNS = 300;
const SHRINK_MS = 60_000;

interface Planned {
  readonly fuzzer: Fuzzer;
  readonly coverage: Coverage;
}

function planned(name: FuzzerName, options: FuzzOptions): Planned[] {
  const server = { kind: "ours", flags: topologyFlags(options) } as const;
  const coverage = new Coverage();
  switch (name) {
    case "bytes":
      return [new BytesInProcess(coverage), new BytesToServer(server, coverage)].map((fuzzer) => ({
        fuzzer,
        coverage,
      }));
    case "grammar":
      return [{ fuzzer: new GrammarFuzzer(server, coverage), coverage }];
    case "splitting":
      return [new SplittingInProcess(), new SplittingToServer(server)].map((fuzzer) => ({
        fuzzer,
        coverage,
      }));
  }
}

async function run({ fuzzer, coverage }: Planned, options: FuzzOptions, ms: number): Promise<boolean> {
  const startedAt = performance.now();
  try {
    const limits = { firstSeed: options.seed, runs: options.runs, ms, shrinkMs: SHRINK_MS };
    const { runs, finding } = await runCampaign(fuzzer, limits);
    if (finding !== undefined) {
      const path = writeFinding(fuzzer, fuzzer.draw(finding.seed), finding);
      console.error(`\nFOUND ${describeFinding(fuzzer, finding, path)}\n`);
      return false;
    }
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    console.log(`${fuzzer.name}, ${fuzzer.place}: ${runs} runs in ${seconds} s, nothing found`);
    return isCovered(fuzzer, coverage, runs);
  } finally {
    await fuzzer.stop();
  }
}

function isCovered(fuzzer: Fuzzer, coverage: Coverage, runs: number): boolean {
  if (!(fuzzer instanceof GrammarFuzzer)) return true;
  console.log(
    `${coverage.describe()}\n${fuzzer.slowConversations} conversations were played again: the machine was too slow`,
  );
  const missing = coverage.missing();
  if (runs < FULL_RUNS || missing.length === 0) return true;
  console.error(`Never seen in ${runs} runs: ${missing.join(", ")}`);
  return false;
}

const options = parseFuzzOptions(process.argv.slice(2));
if (options.fuzzers.includes("grammar") && !existsSync(NEEDS.beanstalkd.path)) {
  console.error(
    `The grammar fuzzer compares with ${NEEDS.beanstalkd.path}, which is missing (${NEEDS.beanstalkd.remedy})`,
  );
  process.exit(2);
}
console.log(`first seed ${options.seed}; again: npm run fuzz -- --seed ${options.seed}`);
const plan = options.fuzzers.flatMap((name) => {
  const all = planned(name, options);
  const ms = (options.seconds * 1000) / options.fuzzers.length / all.length;
  return all.map((each) => ({ ...each, ms }));
});
let isGood = true;
for (const each of plan) isGood = (await run(each, options, each.ms)) && isGood;
process.exitCode = isGood ? 0 : 1;
