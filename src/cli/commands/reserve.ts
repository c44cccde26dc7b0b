// `reserve`: prints the next jobs, or runs a command for each of them.

import type { Command } from "commander";
import { printableLines } from "../../base/printable.ts";
import { TIMEOUT_SECONDS_MAX, U32_MAX } from "../../protocol/limits.ts";
import { tube, whole } from "../argument.ts";
import { CommandFailed, ExitCode } from "../exit-code.ts";
import { tell } from "../output.ts";
import { type CommonOptions, newCommand, withWire, withWireTarget } from "../run.ts";
import { ShellWorker } from "../shell-worker.ts";
import type { Reserved, WireSession } from "../wire-session.ts";
import { bodyOf } from "./show.ts";

interface ReserveOptions extends CommonOptions {
  readonly wait?: string;
  readonly max: string;
  readonly delete?: true;
}

export function reserveCommand(): Command {
  return newCommand(
    "reserve <tubes...>",
    "reserve the next job of these tubes; a command after -- gets the body on stdin: exit status 0 deletes the job, 75 releases it, any other buries it",
  )
    .option(
      "--wait <seconds>",
      "how long to wait for a job (default: forever)",
      whole(0, TIMEOUT_SECONDS_MAX),
    )
    .option("--max <n>", "number of jobs to take, one after the other; 0: no limit", whole(0, U32_MAX), "1")
    .option(
      "--delete",
      "without a command: delete each job once it is printed; otherwise it goes back to the queue",
    )
    .action((words: string[], options: ReserveOptions, self: Command) => {
      const [tubes, command] = split(words, self);
      if (command.length > 0)
        return withWireTarget(options, (target) =>
          new ShellWorker({ target, tubes, wait: waitOf(options), max: maxOf(options), command }).run(),
        );
      return withWire(options, async (session) => {
        await session.watchOnly(tubes);
        await printJobs(session, options);
      });
    });
}

/** Returns the tubes and the command after "--". */
function split(words: readonly string[], self: Command): [tubes: string[], command: string[]] {
  const raw = self.parent === null ? process.argv : ((self.parent as { rawArgs?: string[] }).rawArgs ?? []);
  const at = raw.indexOf("--");
  const command = at < 0 ? [] : raw.slice(at + 1);
  const tubes = words.slice(0, words.length - command.length);
  if (tubes.length === 0) self.error("error: name a tube before --");
  for (const name of tubes) mustBeTube(name, self);
  return [tubes, command];
}

/** Reports errors like commander, which can't tell these arguments from the command after them. */
function mustBeTube(name: string, self: Command): void {
  try {
    tube(name);
  } catch (error) {
    const { message } = error as Error;
    self.error(`error: command-argument value '${name}' is invalid for argument 'tubes'. ${message}`);
  }
}

/** Prints the next jobs. */
async function printJobs(session: WireSession, options: ReserveOptions): Promise<void> {
  const max = maxOf(options);
  let taken = 0;
  for (; taken < max; taken++) {
    const job = await session.reserve(waitOf(options));
    if (job === undefined) break;
    await show(session, job, options);
  }
  if (taken === 0) throw new CommandFailed("no job arrived", ExitCode.Nothing);
  if (options.delete !== true)
    tell("jobs that were not deleted go back to the queue now; --delete deletes them");
}

const NEWLINE = Buffer.from("\n");
const waitOf = ({ wait }: ReserveOptions): number | undefined =>
  wait === undefined ? undefined : Number(wait);
const maxOf = ({ max }: ReserveOptions): number => Number(max) || Number.POSITIVE_INFINITY;

/** Rejects if the write fails, for example because the reader is gone. */
const write = (bytes: string | Buffer): Promise<void> =>
  new Promise((resolve, reject) => {
    process.stdout.write(bytes, (error) => (error ? reject(error) : resolve()));
  });

async function show(session: WireSession, { id, body }: Reserved, options: ReserveOptions): Promise<void> {
  if (options.json === true) await write(printableLines(`${JSON.stringify({ id, ...bodyOf(body) })}\n`));
  else if (process.stdout.isTTY) await write(printableLines(`${body}\n`));
  else {
    // Separates several bodies, whose ends would otherwise be invisible.
    await write(maxOf(options) > 1 ? Buffer.concat([body, NEWLINE]) : body);
  }
  // Deletes only after printing, so that a job lost before that is handed out again.
  if (options.delete === true) await session.ask(`delete ${id}`, "DELETED");
}
