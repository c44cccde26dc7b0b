// Options of the server: flags override environment variables, which override the file, which
// overrides the machine's defaults.

import { Command, CommanderError, Option } from "commander";
import { readOperatorFile } from "../../config/operator-file.ts";
import {
  applyEnvironment,
  applyFile,
  applyFlag,
  type Fault,
  flagsOf,
  nearestWord,
  TomlSource,
} from "../../config/read-settings.ts";
import { type Setting, SettingError, variableOf } from "../../config/setting.ts";
import { commandListText } from "../../protocol/commands.ts";
import { describeHttpAddress, isHarmless, isLoopback } from "./http-settings.ts";
import { ExitCode, OperatorError, operatorFault } from "./operator-error.ts";
import { PROGRAM, SUBCOMMAND_GROUPS, SUBCOMMAND_WORDS, VERSION } from "./program.ts";
import { defaultSettings, SETTINGS, type Settings } from "./settings.ts";

export interface Options extends Settings {
  /** Path of the configuration file. */
  config: string | undefined;
  /** The given -l and -p, for the notice under socket activation. */
  given: { flag: string; value: string }[];
  /** Origin of each setting that is not the default, by key: "FILE:12", "RUNNERBEAN_PORT", "-p". */
  sources: Map<string, string>;
}

/** A result other than starting a server: text to print, and the exit code. */
export interface Exit {
  stdout: string;
  stderr: string;
  exitCode: number;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** Variables with our prefix that are not settings of the server. */
const OTHER_VARIABLES = [
  "RUNNERBEAN_CHECKED",
  "RUNNERBEAN_RECEIVES",
  "RUNNERBEAN_STREAM_WRITES",
  "RUNNERBEAN_URL",
  "RUNNERBEAN_HTTP_URL",
  "RUNNERBEAN_TOKEN",
];
const CONFIG_VARIABLE = "RUNNERBEAN_CONFIG";

/** Hint after a message about flags. */
export const FLAGS_HINT = `${PROGRAM} --help shows all flags\n`;

/** Returns the message of a refusal without the program's name and the hint. */
export const messageOf = ({ stderr }: Exit): string =>
  stderr.replace(FLAGS_HINT, "").trimEnd().replace(`${PROGRAM}: `, "");

class EarlyExit extends Error {
  readonly exit: Exit;

  constructor(exit: Exit) {
    super("early exit");
    this.exit = exit;
  }
}

const usageError = (message: string): OperatorError => new OperatorError(message, ExitCode.Usage, true);

/** A given flag. */
interface GivenFlag {
  readonly row: Setting<Settings>;
  /** "-p" or "--port", as in the help: the short form if there is one. */
  readonly flag: string;
  readonly value: string;
}

interface CommandLine {
  readonly given: GivenFlag[];
  config: string | undefined;
  readonly notices: string[];
}

/** Parses the arguments after the program's name. Messages begin with `program`. */
export function parseOptions(
  args: readonly string[],
  program: string,
  environment: Environment = {},
): Options | Exit {
  const line: CommandLine = { given: [], config: environment[CONFIG_VARIABLE] || undefined, notices: [] };
  const command = describe(line, program);
  try {
    command.parse(args as string[], { from: "user" });
    return compose(line, environment);
  } catch (error) {
    return exitFor(toolAfterFlags(error, args, line, program) ?? error, program);
  }
}

/** A tool after flags of the server: its own options are unknown to the server. */
function toolAfterFlags(
  error: unknown,
  args: readonly string[],
  line: CommandLine,
  program: string,
): OperatorError | undefined {
  if (!(error instanceof CommanderError) || error.code !== "commander.unknownOption") return undefined;
  const flag = args.findIndex((each) => error.message.includes(`'${each.split("=")[0]}'`));
  const tool = args.slice(0, flag).find((each) => SUBCOMMAND_WORDS.has(each));
  return tool === undefined
    ? undefined
    : usageError(`unknown argument: ${tool}${hintAt(tool, line, program)}`);
}

/**
 * Returns the options of a file alone, with all its faults; for `config check`. Throws an
 * OperatorError if the file can't be read.
 */
export function checkFile(path: string): { options: Options; faults: readonly Fault[] } {
  const options = emptyOptions();
  return { options, faults: readFile(path, options) };
}

function emptyOptions(): Options {
  return { ...defaultSettings(), config: undefined, given: [], sources: new Map() };
}

function compose(line: CommandLine, environment: Environment): Options {
  const options = emptyOptions();
  options.config = line.config;
  if (line.config !== undefined) {
    const faults = readFile(line.config, options);
    const text = faultsText(line.config, faults);
    if (faults.length > 0)
      throw new OperatorError(
        faults.length === 1 ? text : `the configuration has ${faults.length} faults:\n${text}`,
        ExitCode.Usage,
      );
  }
  const others = [...OTHER_VARIABLES, CONFIG_VARIABLE];
  applyEnvironment(SETTINGS, options, environment, others, {
    onApplied: (key) => options.sources.set(key, variableOf(key)),
    notice: (text) => options.notices.push(text),
  });
  applyFlags(line, options);
  options.notices.push(...line.notices);
  checkThreads(options);
  checkHttp(options);
  if (options.salvage && options.binlog === undefined)
    throw usageError("--salvage needs -b: give the directory of the log, too");
  return options;
}

/**
 * Refuses impossible thread counts. A thread sleeps in the kernel, on its sockets; one without an
 * acceptor sleeps on its doorbell. So with `together`, each thread needs an acceptor. With `apart`,
 * the roles determine the number.
 */
function checkThreads({ acceptors, placement, threads }: Options): void {
  if (threads === undefined) return;
  if (placement === "apart") {
    throw usageError(
      "--threads needs --placement together: with apart, each shard and each acceptor has its own thread",
    );
  }
  if (threads > acceptors)
    throw usageError(`--threads ${threads}: each thread needs an acceptor; give --acceptors ${threads}, too`);
}

/**
 * Without tokens, any client may do anything, so only loopback addresses are allowed unless the
 * operator says otherwise.
 */
function checkHttp(options: Options): void {
  const { http, httpInsecure, httpTls, tokenFile } = options;
  const { cert, key, clientCa } = httpTls;
  if ((cert === undefined) !== (key === undefined))
    throw usageError("HTTPS needs both --http-tls-cert and --http-tls-key");
  if (clientCa !== undefined && cert === undefined)
    throw usageError("--http-tls-client-ca needs --http-tls-cert and --http-tls-key");
  if (cert !== undefined && http === undefined) throw usageError("--http-tls-cert needs --http");
  checkHttpAlso(options);
  if (http === undefined || httpInsecure || tokenFile !== undefined || isLoopback(http)) return;
  throw new OperatorError(
    `--http ${describeHttpAddress(http)} is reachable from other machines, and without tokens they may do anything: ` +
      "add --token-file, choose a loopback address, or add --http-insecure if the network is trusted",
    ExitCode.Usage,
  );
}

function checkHttpAlso({ http, httpAlso, httpInsecure, httpTls, tokenFile }: Options): void {
  if (httpAlso.length > 0 && http === undefined)
    throw usageError("[[http.also]] adds addresses to the first one: set http.listen or --http, too");
  if (httpTls.cert === undefined && httpAlso.some(({ tls }) => tls))
    throw usageError(
      "[[http.also]] with secure = true takes the certificate of [http]: give tls.cert and tls.key there",
    );
  const open = httpAlso.find((also) => !isHarmless(also));
  if (open === undefined || httpInsecure || tokenFile !== undefined) return;
  throw new OperatorError(
    `[[http.also]] ${describeHttpAddress(open.address)} is reachable from other machines, and without tokens they may do anything ` +
      'there: let it serve = ["health", "metrics"] with metrics-public = true, add token-file, or http.insecure = true',
    ExitCode.Usage,
  );
}

function applyFlags({ given }: CommandLine, options: Options): void {
  const times = new Map<string, number>();
  for (const { row, flag, value } of given) {
    const before = times.get(row.key) ?? 0;
    applyFlag(row, options, value, before);
    times.set(row.key, before + 1);
    options.sources.set(row.key, flag);
    if (row.key === "listen" || row.key === "port") options.given.push({ flag, value });
  }
}

/** Applies a file and returns its faults. Throws an OperatorError if the file can't be read. */
function readFile(path: string, options: Options): readonly Fault[] {
  const source = TomlSource.read(operatorFault(() => readOperatorFile("configuration", path)));
  if (!(source instanceof TomlSource)) return [source];
  options.config = path;
  return applyFile(SETTINGS, options, source, (key, line) => {
    options.sources.set(key, `${path}:${line}`);
  });
}

/** Returns a line for each fault: "/etc/runnerbean.toml:3: unknown key …". */
export function faultsText(path: string, faults: readonly Fault[]): string {
  return faults.map(({ line, message }) => `${path}${line > 0 ? `:${line}` : ""}: ${message}`).join("\n");
}

// --- Flags ---

type AddOption = (flags: string, text: string, effect: (value: string) => void) => void;

function describe(line: CommandLine, program: string): Command {
  const command = new Command(program);
  command
    .helpOption(false)
    .exitOverride()
    .configureOutput({ writeOut() {}, writeErr() {} })
    .allowExcessArguments();
  command.usage("[OPTIONS]");
  const add: AddOption = (flags, text, effect) => {
    const option = new Option(flags, text);
    command.addOption(option);
    command.on(`option:${option.name()}`, effect);
  };
  addSettings(add, line);
  addQuestions(add, command, program);
  addRemovedFlags(command, line);
  command.action(() => {
    const unknown = command.args[0];
    if (unknown === undefined) return;
    throw usageError(`unknown argument: ${unknown}${hintAt(unknown, line, program)}`);
  });
  return command;
}

/** Words for what other programs do, each with what to do here. */
const OTHER_WORDS: Readonly<Record<string, string>> = {
  start: "the server starts without a word, only with options",
  run: "the server starts without a word, only with options",
  serve: "the server starts without a word, only with options",
  stop: "stop the server with Ctrl-C, kill or systemctl stop runnerbean",
  restart: "restart the server with systemctl restart runnerbean",
  version: `${PROGRAM} --version prints it`,
  logs: "journalctl -u runnerbean shows them under systemd; otherwise they go to stderr",
  status: `${PROGRAM} stats shows a running server, ${PROGRAM} health whether it is ready`,
};

function hintAt(unknown: string, { given }: CommandLine, program: string): string {
  const other = OTHER_WORDS[unknown];
  if (other !== undefined) return `: ${other}`;
  if (SUBCOMMAND_WORDS.has(unknown)) {
    const port = given.findLast(({ row }) => row.key === "port")?.value;
    return `: a tool comes first: ${program} ${unknown}${port === undefined ? "" : ` -p ${port}`}`;
  }
  const nearest = nearestWord(unknown, SUBCOMMAND_WORDS);
  return nearest === undefined ? "" : `: did you mean ${nearest}?`;
}

/**
 * Adds the flags of all settings. Each is tried at once and in order, as in beanstalkd, so the
 * first bad one is reported. It takes effect after the file and the environment are read.
 */
function addSettings(add: AddOption, line: CommandLine): void {
  const tried = defaultSettings();
  for (const row of SETTINGS) {
    if (!("flags" in row) || row.flags === undefined) continue;
    const [flag] = row.flags.split(/[, ]/) as [string];
    add(row.flags, row.text, (given: string | null) => {
      // The value of an optional argument may be missing.
      const value = given ?? "";
      applyFlag(row, tried, value, 0);
      line.given.push({ row, flag, value });
    });
  }
  add(
    "--config <file>",
    "read settings from this TOML file; flags and environment variables take precedence",
    (path) => {
      line.config = path;
    },
  );
}

/** Adds the options that print something and exit. */
function addQuestions(add: AddOption, command: Command, program: string): void {
  add("-v, --version", "print the version", () => {
    throw new EarlyExit({ stdout: `${program} ${VERSION}\n`, stderr: "", exitCode: 0 });
  });
  add("-h", "print this help on stderr", () => {
    throw new EarlyExit({ stdout: "", stderr: helpText(command, program), exitCode: 0 });
  });
  add("--help", "print this help", () => {
    throw new EarlyExit({ stdout: helpText(command, program), stderr: "", exitCode: 0 });
  });
}

/** Adds flags that older versions of beanstalkd had. */
function addRemovedFlags(command: Command, line: CommandLine): void {
  command.addOption(new Option("-c").hideHelp()).addOption(new Option("-n").hideHelp());
  for (const flag of ["c", "n"]) {
    command.on(`option:${flag}`, () => {
      line.notices.push(`-${flag} flag was removed. binlog is always compacted.`);
    });
  }
}

const TOOLS = `Tools, which don't start a server (${PROGRAM} WORD --help explains each):
${Object.entries(SUBCOMMAND_GROUPS)
  .map(([group, words]) => ` ${`${group}:`.padEnd(16)}${words.join(" ")}\n`)
  .join("")}`;

function usageText(command: Command, program: string): string {
  const help = command.createHelp();
  help.helpWidth = 100;
  const lines = help.visibleOptions(command).map((option) => {
    const [short, long] =
      option.short === undefined
        ? ["  ", option.flags]
        : [option.short, option.flags.replace(/^-\w,? ?/, "")];
    return ` ${short}${option.short === undefined || long === "" ? "  " : ", "}${long.padEnd(26)} ${option.description}`;
  });
  return `Use: ${program} [OPTIONS]\n\nOptions:\n${lines.join("\n")}\n\n${TOOLS}`;
}

function helpText(command: Command, program: string): string {
  return `${usageText(command, program)}\nCommands that clients send:\n${commandListText()}`;
}

function exitFor(error: unknown, program: string): Exit {
  if (error instanceof EarlyExit) return error.exit;
  if (error instanceof OperatorError) return refusal(error.message, error.exitCode, error.showHint, program);
  if (error instanceof SettingError) return refusal(error.message, ExitCode.Usage, true, program);
  if (error instanceof CommanderError) return refusal(plainMessage(error), ExitCode.Usage, true, program);
  throw error;
}

/**
 * beanstalkd prints all flags after the message. Ours would fill the terminal and scroll the
 * message away.
 */
function refusal(message: string, exitCode: number, hint: boolean, program: string): Exit {
  return { stdout: "", stderr: `${program}: ${message}\n${hint ? FLAGS_HINT : ""}`, exitCode };
}

/** Translates commander's message into beanstalkd's wording. */
function plainMessage(error: CommanderError): string {
  const flag = /'([^']*)'/.exec(error.message)?.[1] ?? "";
  if (error.code === "commander.unknownOption") {
    const nearest = flag.startsWith("--") ? nearestWord(flag, flagsOf(SETTINGS)) : undefined;
    return `unknown flag: ${flag}${nearest === undefined ? "" : `: did you mean ${nearest}?`}`;
  }
  if (error.code === "commander.optionMissingArgument")
    return `flag requires an argument: ${flag.split(/[ ,]/)[0]}`;
  return error.message.replace(/^error: /, "");
}
