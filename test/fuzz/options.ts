// Options of `npm run fuzz`.

import { Option } from "commander";
import { campaignCommand, seedOption, seedsOption } from "../support/campaign-command.ts";
import { drawnSeed } from "../support/seeded-random.ts";
import { wholeNumber } from "../support/whole-number.ts";
import { FUZZER_NAMES, type FuzzerName } from "./fuzzer.ts";

export interface FuzzOptions {
  /** Seed of the first run; the next has the next number. */
  readonly seed: number;
  /** Runs of each fuzzer at most. */
  readonly runs: number;
  /** Time in all. */
  readonly seconds: number;
  readonly fuzzers: readonly FuzzerName[];
  readonly shards: number;
  readonly acceptors: number;
}

const SECONDS_DEFAULT = 60;
const THREADS_MAX = 64;

/**
 * Reads `args`, without program and script. With `--help` or on an error it says so and ends the
 * process.
 */
export function parseFuzzOptions(args: readonly string[]): FuzzOptions {
  const program = campaignCommand(
    "fuzz",
    "Sends bytes that nobody would think of to the parser, the server and beanstalkd 1.12, and says where the replies are not those they should be.",
  )
    .addOption(seedOption())
    .addOption(seedsOption("as many for each fuzzer as there is time for"))
    .option(
      "--seconds <n>",
      `time in all (default: ${SECONDS_DEFAULT}, without limit if --seeds is given)`,
      wholeNumber(1, 1e6),
    )
    .addOption(new Option("--fuzzer <name>", "only this fuzzer").choices(FUZZER_NAMES))
    .option("--shards <n>", "shards of the running server", wholeNumber(1, THREADS_MAX), 3)
    .option("--acceptors <n>", "acceptors of the running server", wholeNumber(1, THREADS_MAX), 2)
    .parse(args, { from: "user" });
  const {
    seed,
    seeds: runs,
    seconds,
    fuzzer,
    shards,
    acceptors,
  } = program.opts<{
    seed?: number;
    seeds?: number;
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
