// `reserve`: prints the next jobs, or runs a command for each of them.

import type { Command } from "commander";
import { printableLines } from "../../base/printable.ts";
import { clientName } from "../../client/client-name.ts";
import { reasonText } from "../../client/job.ts";
import { TIMER_MS_MAX } from "../../client/link.ts";
import { TIMEOUT_SECONDS_MAX, U32_MAX } from "../../protocol/limits.ts";
import { tube, whole } from "../argument.ts";
import { CommandFailed, ExitCode } from "../exit-code.ts";
import { runJob } from "../job-command.ts";
import { tell } from "../output.ts";
import { type CommonOptions, newCommand, withWire } from "../run.ts";
import type { WireSession } from "../wire-session.ts";
import { bodyOf } from "./show.ts";

/** Exit code of a command that failed temporarily: EX_TEMPFAIL of sysexits. */
const TEMPORARY_FAILURE = 75;
/** Share of the time to run after which it is renewed. */
const TOUCH_SHARE = 0.4;
/** Fallback if the server doesn't report it. */
const TTR_SECONDS = 60;

interface ReserveOptions extends CommonOptions {
  readonly wait?: string;
  readonly max: string;
  readonly delete?: true;
}

interface Reserved {
  readonly id: number;
  readonly body: Buffer;
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
      return withWire(options, async (session) => {
        await watchOnly(session, tubes);
        await reserveMany(session, options, command);
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

async function watchOnly(session: WireSession, tubes: readonly string[]): Promise<void> {
  for (const tube of tubes) await session.ask(`watch ${tube}`, "WATCHING");
  if (!tubes.includes("default")) await session.ask("ignore default", "WATCHING");
}

async function reserveMany(
  session: WireSession,
  options: ReserveOptions,
  command: readonly string[],
): Promise<void> {
  const max = maxOf(options);
  // If stderr has no reader any more, the commands continue with their jobs.
  if (command.length > 0) process.stderr.on("error", () => {});
  const takesReasons = command.length > 0 && (await introduce(session));
  let [taken, failed] = [0, 0];
  for (; taken < max; taken++) {
    const job = await reserve(session, options.wait);
    if (job === undefined) break;
    if (command.length === 0) await show(session, job, options);
    else if (!(await runCommand(session, job, command, takesReasons))) failed++;
  }
  if (taken === 0) throw new CommandFailed("no job arrived", ExitCode.Nothing);
  if (failed > 0) {
    const exitCode = failed < taken ? ExitCode.Partly : ExitCode.Nothing;
    throw new CommandFailed(`${failed} of ${taken} jobs failed`, exitCode);
  }
  if (command.length === 0 && options.delete !== true)
    tell("jobs that were not deleted go back to the queue now; --delete deletes them");
}

/** Sends a name, for the failures that the server records. Returns whether it accepts reasons. */
async function introduce(session: WireSession): Promise<boolean> {
  if (!(await session.has("name"))) return false;
  await session.ask(`name ${clientName(undefined)}`, "NAMED");
  return true;
}

async function reserve(session: WireSession, wait: string | undefined): Promise<Reserved | undefined> {
  const command = wait === undefined ? "reserve" : `reserve-with-timeout ${wait}`;
  // The reply may take as long as the wait, which may have no limit.
  const workMs = wait === undefined ? Number.POSITIVE_INFINITY : Number(wait) * 1000;
  const accept = "RESERVED TIMED_OUT DEADLINE_SOON";
  const { words, jobs } = await session.ask(command, accept, undefined, workMs);
  const [job] = jobs;
  return words[0] !== "RESERVED" || job === undefined
    ? undefined
    : { id: job.id, body: Buffer.from(job.bytes) };
}

const NEWLINE = Buffer.from("\n");
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

/** Returns whether the command succeeded. */
async function runCommand(
  session: WireSession,
  { id, body }: Reserved,
  command: readonly string[],
  takesReasons: boolean,
): Promise<boolean> {
  const stats = await session.report(`stats-job ${id}`);
  const ttrMs = (Number(stats?.["ttr"]) || TTR_SECONDS) * 1000;
  // A longer timer would fire at once, repeatedly.
  const touchMs = Math.min(Math.max(500, ttrMs * TOUCH_SHARE), TIMER_MS_MAX);
  const touch = setInterval(() => {
    session.ask(`touch ${id}`, "TOUCHED NOT_FOUND").catch(() => {});
  }, touchMs);
  const job = { id, body, tube: `${stats?.["tube"] ?? ""}` };
  const { exitCode, reason } = await runJob(command, job).finally(() => clearInterval(touch));
  const pri = stats?.["pri"] ?? 1024;
  const because = takesReasons ? reasonText(reason) : "";
  if (exitCode === 0) await session.ask(`delete ${id}`, "DELETED NOT_FOUND");
  else if (exitCode === TEMPORARY_FAILURE)
    await session.ask(`release ${id} ${pri} 0${because}`, "RELEASED NOT_FOUND");
  else await session.ask(`bury ${id} ${pri}${because}`, "BURIED NOT_FOUND");
  return exitCode === 0;
}
