// The options of `npm run fuzz`.

import { Command, Option } from "commander";
import { drawnSeed } from "../support/seeded-random.ts";
import { seedNumber, wholeNumber } from "../support/whole-number.ts";
import { FUZZER_NAMES, type FuzzerName } from "./fuzzer.ts";

export interface FuzzOptions {
  /** Of the first run; the next has the next number. */
  readonly seed: number;
  /** Runs of each fuzzer at most. */
  readonly runs: number;
  /** Time in all. */
  readonly seconds: number;
  readonly fuzzers: readonly FuzzerName[];
  readonly shards: number;
  readonly acceptors: number;
}

const RUNS_MAX = 1e9;
const SECONDS_DEFAULT = 60;
const THREADS_MAX = 64;

/** Reads `args`, without program and script. With `--help` or on an error it says so and ends the process. */
export function parseFuzzOptions(args: readonly string[]): FuzzOptions {
  const program = new Command("npm run fuzz --")
    .description(
      "Sends bytes that nobody would think of to the parser, the server and beanstalkd 1.12, and says where the replies are not those they should be.",
    )
    .option("--seed <n>", "seed of the first run; each run takes the next", seedNumber)
    .option(
      "--runs <n>",
      "runs of each fuzzer at most (default: as many as there is time for)",
      wholeNumber(1, RUNS_MAX),
    )
    .option(
      "--seconds <n>",
      `time in all (default: ${SECONDS_DEFAULT}, without limit if --runs is given)`,
      wholeNumber(1, 1e6),
    )
    .addOption(new Option("--fuzzer <name>", "only this fuzzer").choices(FUZZER_NAMES))
    .option("--shards <n>", "shards of the running server", wholeNumber(1, THREADS_MAX), 3)
    .option("--acceptors <n>", "acceptors of the running server", wholeNumber(1, THREADS_MAX), 2)
    .allowExcessArguments(false)
    .parse(args, { from: "user" });
  const { seed, runs, seconds, fuzzer, shards, acceptors } = program.opts<{
    seed?: number;
    runs?: number;
    seconds?: number;
    fuzzer?: FuzzerName;
    shards: number;
    acceptors: number;
  }>();
  return {
    seed: seed ?? drawnSeed(),
    runs: runs ?? Number.POSITIVE_INFINITY,
    seconds: seconds ?? (runs === undefined ? SECONDS_DEFAULT : Number.POSITIVE_INFINITY),
    fuzzers: fuzzer === undefined ? FUZZER_NAMES : [fuzzer],
    shards,
    acceptors,
  };
}
