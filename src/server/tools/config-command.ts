// `runnerbean config`: checks a file, shows effective settings with their origin, and prints an
// example of all settings.

import { resolve } from "node:path";
import { Command } from "commander";
import { print, tell } from "../../cli/output.ts";
import { exampleSettings, printSettings } from "../../config/write-settings.ts";
import { checkGroupOptions } from "../lifecycle/group-role.ts";
import { switchUser } from "../lifecycle/process.ts";
import { readAccessRules, readTls } from "../listeners/access-rules.ts";
import { checkSocketPaths } from "../listeners/listen-address.ts";
import { ExitCode, OperatorError } from "../options/operator-error.ts";
import { checkFile, faultsText, messageOf, parseOptions } from "../options/options.ts";
import { PROGRAM } from "../options/program.ts";
import { defaultSettings, SETTINGS } from "../options/settings.ts";
import { directoryFault, isUser, type ServiceUnit, serviceUnit } from "./service-unit.ts";

// Faults of a configuration, as a start would find them: first each key, then conflicts and files.

/**
 * Returns "" if the server would start with this file, if any, and these flags. It binds nothing
 * and opens no log.
 */
export function configFaults(path: string | undefined, flags: readonly string[]): string {
  if (path !== undefined) {
    const unreadable = faultOf(() => checkFile(path));
    if (unreadable !== undefined) return unreadable;
    const { faults } = checkFile(path);
    if (faults.length > 0) return faultsText(path, faults);
  }
  const options = parseOptions(path === undefined ? flags : [...flags, "--config", path], PROGRAM, {});
  const where = path === undefined ? "" : `${path}: `;
  // The hint about flags is no help here.
  if ("exitCode" in options) return `${where}${messageOf(options)}`;
  const looks = [
    () => checkGroupOptions(options),
    () => checkSocketPaths(options),
    () => readTls("http", options.httpTls),
    () => readAccessRules(options, options.listen !== "none"),
  ];
  return looks
    .map(faultOf)
    .filter((message) => message !== undefined)
    .map((message) => `${where}${message}`)
    .join("\n");
}

/** Returns the unit of the service if this is its file. */
function serviceOf(path: string): ServiceUnit | undefined {
  const unit = serviceUnit();
  return unit?.config !== undefined && resolve(path) === unit.config ? unit : undefined;
}

/** Returns what would keep the service from writing its log, which only its user can tell. */
function logFaults(path: string, flags: readonly string[], unit: ServiceUnit | undefined): string {
  if (unit === undefined || !isUser(unit.user)) return "";
  const options = parseOptions([...flags, "--config", path], PROGRAM, {});
  if ("exitCode" in options || options.binlog === undefined) return "";
  const fault = directoryFault(options.binlog, unit);
  return fault === undefined ? "" : `${path}: binlog: ${fault.found}: ${fault.todo}`;
}

function faultOf(look: () => void): string | undefined {
  try {
    look();
    return undefined;
  } catch (error) {
    if (error instanceof OperatorError) return error.message;
    throw error;
  }
}

export function configCommand(): Command {
  const config = new Command("config").description("check, print or create a configuration file");
  config
    .command("check <file> [options...]")
    .description(
      "report every error with its line, conflicting settings and unusable files; exit with 0 if there are none, " +
        "otherwise with 5. After --, give flags of the server to check them, too",
    )
    .action((path: string, flags: string[]) => {
      const unit = serviceOf(path);
      // Root may read what the service may not.
      const user = process.getuid!() === 0 ? unit?.user : undefined;
      if (user !== undefined) switchUser(user);
      const faults = configFaults(path, flags) || logFaults(path, flags, unit);
      const forWhom = user === undefined ? "" : ` for the service, which runs as ${user}`;
      if (faults === "") print(`${path} is right${forWhom}`);
      else fail(user === undefined ? faults : `${faults}\n(judged${forWhom})`);
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
