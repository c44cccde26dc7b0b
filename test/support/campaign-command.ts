// Commands of the tests, with a help text and a suggestion for an unknown option; bad options exit
// with 2. Common options of all campaigns (simulate, stress, fuzz, soak, differential, kill):
// `--seed` and `--seeds`.

import { Command, Option } from "commander";
import { seedNumber, wholeNumber } from "./whole-number.ts";

const SEEDS_MAX = 9_999_999_999;

/** `name` is that of the npm script. */
export function campaignCommand(name: string, about: string): Command {
  return testCommand(
    `run ${name}`,
    `${about}\nEnds with 0 if nothing was found, 1 if something was, and 2 on bad options.`,
  );
}

/** `name` is what follows npm: "test", "run screenshots". */
export function testCommand(name: string, about: string): Command {
  return new Command(`npm ${name} --`)
    .description(about)
    .allowExcessArguments(false)
    .showSuggestionAfterError()
    .showHelpAfterError("(--help tells the options)")
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2));
}

/** `usual` says what it is without the option. */
export const seedOption = (usual = "another each time"): Option =>
  new Option("--seed <n>", `first seed (default: ${usual})`).argParser(seedNumber);

export const seedsOption = (usual: string): Option =>
  new Option("--seeds <n>", `how many seeds, one after the other (default: ${usual})`).argParser(
    wholeNumber(1, SEEDS_MAX),
  );
