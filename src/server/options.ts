// The command line: beanstalkd's flags with their meaning and exit codes, long names for all, and our own.

import { release } from "node:os";
import { Command, CommanderError, Option } from "commander";
import type { TransportKind } from "../acceptor/acceptor-thread.ts";
import { SEGMENT_BYTES_MAX } from "../binlog/format/segment-format.ts";
import type { Placement } from "../message/topology.ts";
import { commandListText } from "../protocol/command-list.ts";
import { JOB_BYTES_MAX_DEFAULT, JOB_BYTES_MAX_LIMIT } from "../protocol/limits.ts";
import { LOG_LEVELS, type LogLevel } from "./log.ts";
import { ExitCode, OperatorError } from "./operator-error.ts";
import { usableCores } from "./usable-cores.ts";
import { VERSION } from "./version.ts";

export type Compat = "default" | "1.12" | "1.13";

export interface Options {
  listen: string;
  port: string;
  user: string | undefined;
  jobBytesMax: number;
  verbose: number;
  shards: number;
  acceptors: number;
  transport: TransportKind | "auto";
  /** Whether shards live in the threads of acceptors: see placement.ts. */
  placement: Placement | "auto";
  compat: Compat;
  /** Log directory, or undefined for none. */
  binlog: string | undefined;
  /** Longest time between a logged change and its fsync; Infinity for never. */
  fsyncMs: number;
  binlogBytes: number;
  /** Start with what can be proven whole of a damaged log. */
  salvage: boolean;
  logLevel: LogLevel;
  /** Whether -l or -p were given, for the notice under socket activation. */
  given: { flag: string; value: string }[];
  /** To be said once logging is set up. */
  notices: string[];
}

/** The parse ended in something else than a server: text to print, and the exit code. */
export interface Exit {
  stdout: string;
  stderr: string;
  exitCode: number;
}

export const SHARDS_MAX = 64;
export const ACCEPTORS_MAX = 16;
const BINLOG_BYTES_DEFAULT = 10485760;
const FSYNC_MS_DEFAULT = 50;

/** An acceptor costs most of a core at full load, a shard a fifth of one: so many of each for `cores`. */
export function defaultThreads(cores: number): { acceptors: number; shards: number } {
  const shards = Math.max(1, Math.min(SHARDS_MAX, Math.floor(cores / 4)));
  return { shards, acceptors: Math.max(1, Math.min(ACCEPTORS_MAX, cores - shards - (cores > 3 ? 1 : 0))) };
}

/** The first Linux on which io_uring is tried unasked: the one that it was tested on. */
const IO_URING_SINCE = [6, 18] as const;

/** io_uring where it is permitted and the kernel, of this release ("6.18.44"), is no older than those that it was tested on. */
export function defaultTransport(kernelRelease: string): TransportKind | "auto" {
  const [major = 0, minor = 0] = kernelRelease.split(".").map(Number.parseFloat);
  const [sinceMajor, sinceMinor] = IO_URING_SINCE;
  return major > sinceMajor || (major === sinceMajor && minor >= sinceMinor) ? "auto" : "libuv";
}

class EarlyExit extends Error {
  readonly exit: Exit;

  constructor(exit: Exit) {
    super("early exit");
    this.exit = exit;
  }
}

function size(flag: string, text: string, max: number): number {
  if (!/^[ \t]*\+?[0-9]+$/.test(text)) throw usageError(`invalid size: ${text}`);
  const value = Number(text);
  if (value > max) throw usageError(`invalid size: ${text} (${flag} takes at most ${max})`);
  return value;
}

function count(flag: string, text: string, max: number): number {
  const value = /^[0-9]+$/.test(text) ? Number(text) : 0;
  if (value < 1 || value > max) throw usageError(`invalid number: ${flag} ${text} (1 to ${max})`);
  return value;
}

const usageError = (message: string): OperatorError => new OperatorError(message, ExitCode.Usage, true);

/** Parses the arguments after the program's name. `program` names it in messages. */
export function parseOptions(args: readonly string[], program: string): Options | Exit {
  const threads = defaultThreads(usableCores());
  const options: Options = {
    listen: "127.0.0.1",
    port: "11300",
    user: undefined,
    jobBytesMax: JOB_BYTES_MAX_DEFAULT,
    verbose: 0,
    shards: threads.shards,
    acceptors: threads.acceptors,
    transport: defaultTransport(release()),
    placement: "auto",
    compat: "default",
    binlog: undefined,
    fsyncMs: FSYNC_MS_DEFAULT,
    binlogBytes: BINLOG_BYTES_DEFAULT,
    salvage: false,
    logLevel: "info",
    given: [],
    notices: [],
  };
  const command = describe(options, program);
  try {
    command.parse(args as string[], { from: "user" });
    return options;
  } catch (error) {
    return exitFor(error, command, program);
  }
}

function describe(options: Options, program: string): Command {
  const command = new Command(program);
  /** An option whose effect is immediate and in order, as in beanstalkd: later ones override earlier ones. */
  const add = (flags: string, text: string, effect: (value: string) => void): void => {
    const option = new Option(flags, text);
    command.addOption(option);
    command.on(`option:${option.name()}`, effect);
  };
  command
    .helpOption(false)
    .exitOverride()
    .configureOutput({ writeOut() {}, writeErr() {} })
    .allowExcessArguments();
  command.usage("[OPTIONS]");
  add("-b, --binlog <dir>", "keep a log in this directory: what was acknowledged survives", (dir) => {
    options.binlog = dir === "" ? "/" : dir;
  });
  add(
    "-f, --fsync <ms>",
    `with -b: fsync at most this long after a change; 0 before its reply (default ${FSYNC_MS_DEFAULT})`,
    (ms) => {
      options.fsyncMs = size("-f", ms, 2 ** 31);
    },
  );
  add("-F, --never-fsync", "with -b: leave it to the system when the log reaches the disk", () => {
    options.fsyncMs = Number.POSITIVE_INFINITY;
  });
  add(
    "-l, --listen <addr>",
    "address or name to listen on, or unix:PATH (default 127.0.0.1; 0.0.0.0 for all)",
    (addr) => {
      options.listen = addr;
      options.given.push({ flag: "-l", value: addr });
    },
  );
  add("-p, --port <port>", "TCP port or service name (default 11300; 0 for a free one)", (port) => {
    options.port = port;
    options.given.push({ flag: "-p", value: port });
  });
  add(
    "-s, --binlog-size <bytes>",
    `with -b: size of one log file (default ${BINLOG_BYTES_DEFAULT}, at most ${SEGMENT_BYTES_MAX})`,
    (bytes) => {
      options.binlogBytes = size("-s", bytes, SEGMENT_BYTES_MAX);
    },
  );
  add("-u, --user <user>", "become this user, with its groups, after binding", (user) => {
    options.user = user;
  });
  add(
    "-z, --max-job-size <bytes>",
    `largest job body (default ${JOB_BYTES_MAX_DEFAULT}, at most ${JOB_BYTES_MAX_LIMIT})`,
    (bytes) => {
      options.jobBytesMax = size("-z", bytes, Number.POSITIVE_INFINITY);
      if (options.jobBytesMax <= JOB_BYTES_MAX_LIMIT) return;
      options.jobBytesMax = JOB_BYTES_MAX_LIMIT;
      options.notices.push(`maximum job size was set to ${JOB_BYTES_MAX_LIMIT}`);
    },
  );
  add(
    "--shards <n>",
    `engine threads, 1 to ${SHARDS_MAX} (default for this machine: ${options.shards})`,
    (n) => {
      options.shards = count("--shards", n, SHARDS_MAX);
    },
  );
  add(
    "--acceptors <n>",
    `socket threads, 1 to ${ACCEPTORS_MAX} (default for this machine: ${options.acceptors})`,
    (n) => {
      options.acceptors = count("--acceptors", n, ACCEPTORS_MAX);
    },
  );
  add(
    "--placement <how>",
    "together: shards live in the threads of acceptors; apart: each has its own; auto: by the cores that may be used (default)",
    (how) => {
      if (how !== "together" && how !== "apart" && how !== "auto")
        throw usageError(`invalid placement: ${how} (together, apart or auto)`);
      options.placement = how;
    },
  );
  add(
    "--transport <kind>",
    "io_uring (Linux 6.1 or later) or libuv (default: io_uring from Linux 6.18 on where it is permitted)",
    (kind) => {
      if (kind !== "libuv" && kind !== "io_uring")
        throw usageError(`invalid transport: ${kind} (libuv or io_uring)`);
      options.transport = kind;
    },
  );
  add("--compat <version>", "stats output exactly as beanstalkd 1.12 or 1.13", (version) => {
    if (version !== "1.12" && version !== "1.13")
      throw usageError(`invalid version: --compat ${version} (1.12 or 1.13)`);
    options.compat = version;
  });
  add("--salvage", "with -b: start with what is whole of a damaged log; bad files are set aside", () => {
    options.salvage = true;
  });
  const levels = LOG_LEVELS.join(", ");
  add("--log-level <level>", `least level of diagnostics: ${levels} (default info)`, (text) => {
    const level = LOG_LEVELS.find((each) => each === text);
    if (level === undefined) throw usageError(`invalid level: --log-level ${text} (${levels})`);
    options.logLevel = level;
  });
  add("-V, --verbose", "print connections; -VV also commands and replies", () => {
    options.verbose++;
  });
  add("-v, --version", "print the version", () => {
    throw new EarlyExit({ stdout: `${program} ${VERSION}\n`, stderr: "", exitCode: 0 });
  });
  add("-h", "print this help on stderr", () => {
    throw new EarlyExit({ stdout: "", stderr: usageText(command, program), exitCode: 0 });
  });
  add("--help", "print this help", () => {
    throw new EarlyExit({ stdout: usageText(command, program), stderr: "", exitCode: 0 });
  });
  command.addOption(new Option("-c").hideHelp()).addOption(new Option("-n").hideHelp());
  for (const flag of ["c", "n"]) {
    command.on(`option:${flag}`, () => {
      options.notices.push(`-${flag} flag was removed. binlog is always compacted.`);
    });
  }
  command.action(() => {
    const unknown = command.args[0];
    if (unknown !== undefined) throw usageError(`unknown argument: ${unknown}`);
  });
  return command;
}

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
  return `Use: ${program} [OPTIONS]\n\nOptions:\n${lines.join("\n")}\n\nCommands that clients send:\n${commandListText()}`;
}

function exitFor(error: unknown, command: Command, program: string): Exit {
  if (error instanceof EarlyExit) return error.exit;
  const usage = usageText(command, program);
  if (error instanceof OperatorError) {
    const text = `${program}: ${error.message}\n${error.showUsage ? usage : ""}`;
    return { stdout: "", stderr: text, exitCode: error.exitCode };
  }
  if (error instanceof CommanderError) {
    return { stdout: "", stderr: `${program}: ${plainMessage(error)}\n${usage}`, exitCode: ExitCode.Usage };
  }
  throw error;
}

/** beanstalkd's words for commander's. */
function plainMessage(error: CommanderError): string {
  const flag = /'([^']*)'/.exec(error.message)?.[1] ?? "";
  if (error.code === "commander.unknownOption") return `unknown flag: ${flag}`;
  if (error.code === "commander.optionMissingArgument")
    return `flag requires an argument: ${flag.split(/[ ,]/)[0]}`;
  return error.message.replace(/^error: /, "");
}
