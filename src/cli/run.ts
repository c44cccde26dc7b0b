// Runs an operator command: opens and closes its connection, and turns errors into a message and an
// exit code.

import { Command } from "commander";
import {
  BadFormat,
  BadSchedule,
  ConnectionLost,
  NotSupported,
  ProtocolError,
  ReplyError,
  Unauthorized,
} from "../client/errors.ts";
import { type Check, each, port, timeout } from "./argument.ts";
import { CommandFailed, ExitCode, tell } from "./output.ts";
import { type Target, type TargetOptions, TIMEOUT_SECONDS, targetOf } from "./target.ts";
import { WireSession } from "./wire-session.ts";

type CommonOption = "url" | "token" | "timeout" | "json";

export interface CommonOptions extends TargetOptions {
  readonly json?: boolean;
}

/**
 * Returns a command with the common options but those `without` effect. `checks` are keyed by
 * argument name, "tube" for "[tube]".
 */
export function newCommand(
  nameAndArguments: string,
  description: string,
  checks: Readonly<Record<string, Check>> = {},
  without: readonly CommonOption[] = [],
): Command {
  const [name = "", ...rest] = nameAndArguments.split(" ");
  const command = new Command(name).description(description);
  for (const argument of rest) {
    const check = checks[argument.replace(/[^a-z]/g, "")];
    if (check === undefined) command.argument(argument);
    else if (argument.includes("...")) command.argument(argument, "", each(check));
    else command.argument(argument, "", check);
  }
  const has = (option: CommonOption): boolean => !without.includes(option);
  if (has("url"))
    command
      .option(
        "--url <url>",
        "the server: beanstalk://, tls://, unix: (RUNNERBEAN_URL), http:// (RUNNERBEAN_HTTP_URL)",
      )
      .option("-p, --port <port>", "instead of --url: the port of a server on this machine", port);
  if (has("token"))
    command
      .option("--token <token>", "access token, or @FILE to read it from a file (RUNNERBEAN_TOKEN)")
      .option(
        "--ca <file>",
        "with tls:// and https://: the authority that signed the server's certificate, PEM",
      );
  if (has("timeout"))
    command.option(
      "--timeout <time>",
      "give up after this long without an answer",
      timeout,
      `${TIMEOUT_SECONDS}`,
    );
  if (has("json")) command.option("--json", "print one JSON object per line");
  return command;
}

/** Returns a command that has only these actions. The first one is the default. */
export function newGroup(name: string, description: string, actions: readonly Command[]): Command {
  const group = new Command(name).description(description);
  for (const action of actions) group.addCommand(action, { isDefault: action === actions[0] });
  const words = actions.map((action) => action.name());
  // Commander treats an unknown action as an argument of the first one.
  return group.hook("preSubcommand", () => {
    const [word] = group.args;
    if (word === undefined || word.startsWith("-") || words.includes(word)) return;
    group.error(`error: unknown action ${JSON.stringify(word)} of ${name}: one of ${words.join(", ")}`);
  });
}

/** Runs `action` with a connection, to a server that has the command `needed`. */
export async function withWire(
  options: TargetOptions,
  action: (session: WireSession) => Promise<void>,
  needed?: string,
): Promise<void> {
  await withWireTarget(options, async (target) => {
    const session = await WireSession.open(target);
    try {
      if (needed !== undefined) await session.needs(needed);
      await action(session);
    } finally {
      await session.end();
    }
  });
}

/** Runs `action` with the target of a command that opens its connections itself. */
export async function withWireTarget(
  options: TargetOptions,
  action: (target: Target) => Promise<void>,
): Promise<void> {
  await withTarget(options, async (target) => {
    if (target.kind === "http")
      throw new CommandFailed(
        "this command uses beanstalkd's protocol: give --url beanstalk://host:port",
        ExitCode.BadArguments,
      );
    await action(target);
  });
}

/** Runs `action` with an HTTP target. */
export function withHttp(options: TargetOptions, action: (target: Target) => Promise<void>): Promise<void> {
  return withTarget(options, action, "http");
}

/** Runs `action`. An error prints its message and sets the exit code. */
export async function withTarget(
  options: TargetOptions,
  action: (target: Target) => Promise<void>,
  kind?: Target["kind"],
): Promise<void> {
  try {
    await action(targetOf(options, process.env, kind));
  } catch (error) {
    if (isOutputGone(error)) process.exit(ExitCode.Done);
    const exitCode = exitCodeOf(error);
    if (exitCode === undefined) throw error;
    tell(`runnerbean: ${isWrite(error) ? "cannot write the output: " : ""}${explained(error as Error)}`);
    process.exitCode = exitCode;
  }
}

/** Returns the message; if the server speaks HTTP, with the next step. */
export const explained = ({ message }: Error): string =>
  message.includes('"HTTP/1.')
    ? `${message}: it speaks HTTP, and this tool takes the address of the protocol with --url or -p`
    : message;

/** The reader closed the output early, as `head` does. */
const isOutputGone = (error: unknown): boolean =>
  (error as NodeJS.ErrnoException).code === "EPIPE" && isWrite(error);

const isWrite = (error: unknown): boolean => (error as NodeJS.ErrnoException).syscall === "write";

function exitCodeOf(error: unknown): number | undefined {
  if (error instanceof CommandFailed) return error.exitCode;
  if (error instanceof Unauthorized) return ExitCode.NotPermitted;
  if (error instanceof BadFormat || error instanceof BadSchedule) return ExitCode.BadArguments;
  // The other side is not a beanstalkd; perhaps it is a web server.
  if (error instanceof ConnectionLost || error instanceof ProtocolError) return ExitCode.NoConnection;
  // A write to standard output failed, for example because the disk is full.
  if (isWrite(error)) return ExitCode.Nothing;
  if (error instanceof NotSupported || error instanceof ReplyError) return ExitCode.Nothing;
  return undefined;
}
