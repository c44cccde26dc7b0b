// `runnerbean config`: checks a file, shows effective settings with their origin, and prints an
// example of all settings.

import { Command } from "commander";
import { print, tell } from "../../cli/output.ts";
import { exampleSettings, printSettings } from "../../config/write-settings.ts";
import { ExitCode } from "../options/operator-error.ts";
import { parseOptions } from "../options/options.ts";
import { defaultSettings, SETTINGS } from "../options/settings.ts";
import { PROGRAM } from "../options/version.ts";
import { configFaults } from "./config-faults.ts";

export function configCommand(): Command {
  const config = new Command("config").description("check, print or create a configuration file");
  config
    .command("check <file> [options...]")
    .description(
      "report every error with its line, conflicting settings and unusable files; exit with 0 if there are none, " +
        "otherwise with 5. After --, give flags of the server to check them, too",
    )
    .action((path: string, flags: string[]) => {
      const faults = configFaults(path, flags);
      if (faults === "") print(`${path} is right`);
      else fail(faults);
    });
  config
    .command("print")
    .description(
      "print the effective settings for these options of the server and where each comes from; put -- before flags",
    )
    .argument("[options...]", "options as for the server, including --config FILE")
    .allowUnknownOption()
    .helpOption(false)
    .action((args: string[]) => {
      const options = parseOptions(args, PROGRAM, process.env);
      if ("exitCode" in options) {
        process.exitCode = options.exitCode;
        if (options.stdout !== "") print(options.stdout.trimEnd());
        if (options.stderr !== "") tell(options.stderr.trimEnd());
      } else print(printSettings(SETTINGS, options, options.sources).trimEnd());
    });
  config
    .command("example")
    .description("print a file with every key, explained")
    .action(() => void process.stdout.write(exampleSettings(SETTINGS, defaultSettings())));
  return config;
}

function fail(text: string): void {
  tell(text);
  process.exitCode = ExitCode.Usage;
}
