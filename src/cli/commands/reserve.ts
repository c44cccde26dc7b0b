// `reserve`: prints the next jobs, or runs a command for each of them.

import { spawn } from "node:child_process";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import type { Command } from "commander";
import { printable, printableLines } from "../../base/text.ts";
import { unescaped } from "../../client/command-text.ts";
import { ConnectionLost, JobLost } from "../../client/errors.ts";
import { reasonText } from "../../client/job.ts";
import { clientName, TIMER_MS_MAX } from "../../client/link.ts";
import type { Reply } from "../../client/wire.ts";
import { TIMEOUT_SECONDS_MAX, U32_MAX } from "../../protocol/limits.ts";
import { durationWithin, tube, whole } from "../argument.ts";
import { CommandFailed, ExitCode, tell } from "../output.ts";
import { type CommonOptions, newCommand, withWire, withWireTarget } from "../run.ts";
import type { Target } from "../target.ts";
import { type Reserved, WireSession } from "../wire-session.ts";
import { bodyOf } from "./show.ts";

// Runs the command that does a job for `reserve`, and finds out why it failed.

/** Bytes to keep from the end of stderr, for its last line. */
const KEPT_BYTES = 64 * 1024;
/**
 * Time for the rest of stderr after the command's end, ms. A process that the command left behind
 * may keep stderr open forever.
 */
const REST_MS = 500;
/** Added to a signal's number, as shells do: the exit code of a command that the signal ended. */
const SIGNALLED = 128;

interface Job {
  readonly id: number;
  readonly tube: string;
  readonly body: Buffer;
}

interface Ended {
  readonly exitCode: number;
  /** The signal that ended the command, if one did. */
  readonly signal: string | null;
  /** "exit status 3: no such user", or "killed by SIGKILL". */
  readonly reason: string;
  /** Whether the job was cancelled meanwhile. */
  readonly isCancelled?: boolean;
}

interface RunningJob {
  /** Rejects with CommandFailed if the command can't be run. */
  readonly ended: Promise<Ended>;
  /** Sends the command and its children a signal, unless they have left its process group. */
  send(signal: "SIGTERM" | "SIGKILL"): void;
}

/**
 * Runs a command with the body on stdin; its output goes where ours goes. It has a process group of
 * its own, so that Ctrl-C on a terminal reaches only this program, which lets it end.
 */
function runJob([program = "", ...args]: readonly string[], { id, tube, body }: Job): RunningJob {
  const { promise, resolve, reject } = Promise.withResolvers<Ended>();
  const env = { ...process.env, JOB_ID: `${id}`, JOB_TUBE: tube };
  const child = spawn(program, args, { env, stdio: ["pipe", "inherit", "pipe"], detached: true });
  let end = Buffer.alloc(0);
  child.stderr.on("data", (bytes: Buffer) => {
    end = Buffer.concat([end, bytes]).subarray(-KEPT_BYTES);
  });
  child.stderr.pipe(process.stderr, { end: false });
  child.on("error", (error) =>
    reject(new CommandFailed(`cannot run ${program}: ${error.message}`, ExitCode.BadArguments)),
  );
  let timer: NodeJS.Timeout | undefined;
  child.on("exit", (code, signal) => {
    const finish = (): void => {
      clearTimeout(timer);
      const line = lastLine(end);
      const what = code === null ? `killed by ${signal}` : `exit status ${code}`;
      resolve({ exitCode: code ?? SIGNALLED, signal, reason: line === "" ? what : `${what}: ${line}` });
    };
    child.once("close", finish);
    timer = setTimeout(() => {
      // It must not keep this process, either.
      (child.stderr as typeof child.stderr & { unref(): void }).unref();
      finish();
    }, REST_MS);
  });
  // A command need not read its stdin.
  child.stdin.on("error", () => {});
  child.stdin.end(body);
  return { ended: promise, send: (signal) => signalGroup(child.pid, signal) };
}

function signalGroup(pid: number | undefined, signal: "SIGTERM" | "SIGKILL"): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // It has just ended.
  }
}

/** Returns the last line that isn't blank, as text without colours. */
function lastLine(bytes: Buffer): string {
  const lines = stripVTControlCharacters(bytes.toString()).split(/[\r\n]/);
  return lines.map((line) => line.trim()).findLast((line) => line !== "") ?? "";
}

// Shell worker: reserves jobs one after the other, runs a command for each of them, and settles it
// by the command's exit status.
//
//   exit status  0      the job is deleted
//               75      it is released
//   any other           it is buried
//
// A stop lets the current command end first. If the connection breaks, the worker reconnects. Only
// work that succeeded counts then, and only if the server still knows the job by its id.

/** Exit code of a command that failed temporarily: EX_TEMPFAIL of sysexits. */
const TEMPORARY_FAILURE = 75;
/** Share of the time to run after which it is renewed. */
const TOUCH_SHARE = 0.4;
/** Fallback if the server doesn't report it. */
const TTR_SECONDS = 60;
/** The longest time between two touches that tell whether the job was cancelled. */
const ASK_MS_MAX = 10_000;
/** Delay before the first attempt to reconnect, which doubles up to the last. */
const RETRY_MS = 50;
const RETRY_MS_MAX = 5000;

const STOP_SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
type StopSignal = (typeof STOP_SIGNALS)[number];
const isStopSignal = (signal: string | null): boolean => STOP_SIGNALS.some((each) => each === signal);

interface ShellWorkerOptions {
  readonly target: Target;
  readonly tubes: readonly string[];
  /** Seconds to wait for a job; undefined waits forever. */
  readonly wait: number | undefined;
  /** Number of jobs to take. */
  readonly max: number;
  readonly command: readonly string[];
}

class ShellWorker {
  readonly #options: ShellWorkerOptions;
  readonly #stopping = new AbortController();
  #session: WireSession | undefined;
  #takesReasons = false;
  /** Whether touches tell if the job was cancelled. */
  #tells = false;
  #running: RunningJob | undefined;
  #isWaiting = false;
  #retries = 0;

  constructor(options: ShellWorkerOptions) {
    this.#options = options;
  }

  /** Resolves at the end of the jobs, or after a stop. Throws CommandFailed if a job failed. */
  async run(): Promise<void> {
    // With nohup, the worker outlives its terminal (bin/runnerbean).
    const ignores = (signal: StopSignal): boolean =>
      signal === "SIGHUP" && process.env["SIGHUP_IGNORED"] !== undefined;
    const handlers = STOP_SIGNALS.map(
      (signal) => [signal, ignores(signal) ? (): void => {} : (): void => this.#stop(signal)] as const,
    );
    for (const [signal, handler] of handlers) process.on(signal, handler);
    // If stderr has no reader any more, the commands continue with their jobs.
    process.stderr.on("error", () => {});
    try {
      await this.#open();
      await this.#work();
    } finally {
      for (const [signal, handler] of handlers) process.off(signal, handler);
      await this.#session?.end();
    }
  }

  /** The first signal ends the wait, or lets the command end. The second one ends everything. */
  #stop(signal: StopSignal): void {
    if (this.#stopping.signal.aborted) {
      this.#running?.send("SIGKILL");
      // The job goes back when the connection closes.
      process.exit(SIGNALLED + constants.signals[signal]);
    }
    this.#stopping.abort();
    if (this.#isWaiting) this.#session?.drop();
    if (this.#running !== undefined)
      tell(`runnerbean: ${signal}: waiting for the command to end; send it again to end it at once`);
  }

  async #work(): Promise<void> {
    const { max } = this.#options;
    const { signal } = this.#stopping;
    let [taken, failed] = [0, 0];
    while (taken < max && !signal.aborted) {
      const job = await this.#reserve();
      if (job === undefined) break;
      taken++;
      if (!(await this.#do(job))) failed++;
    }
    if (signal.aborted) return;
    if (taken === 0) throw new CommandFailed("no job arrived", ExitCode.Nothing);
    if (failed > 0)
      throw new CommandFailed(
        `${failed} of ${taken} jobs failed`,
        failed < taken ? ExitCode.Partly : ExitCode.Nothing,
      );
  }

  /** Returns undefined if no job arrived in time, or after a stop. */
  async #reserve(): Promise<Reserved | undefined> {
    const { wait } = this.#options;
    const endsAtMs = performance.now() + (wait ?? Number.POSITIVE_INFINITY) * 1000;
    const { signal } = this.#stopping;
    for (;;) {
      const session = await this.#connected(signal);
      if (session === undefined || signal.aborted) return undefined;
      const leftMs = Math.max(0, endsAtMs - performance.now());
      this.#isWaiting = true;
      try {
        const job = await session.reserve(wait === undefined ? undefined : Math.ceil(leftMs / 1000));
        this.#retries = 0;
        return job;
      } catch (error) {
        this.#lose(error);
      } finally {
        this.#isWaiting = false;
      }
    }
  }

  /** Returns whether the command succeeded and the server knows it. */
  async #do(job: Reserved): Promise<boolean> {
    const session = this.#session!;
    try {
      const stats = await session.report(`stats-job ${job.id}`);
      // The command has not begun, so the job goes back with the connection.
      if (this.#stopping.signal.aborted) return false;
      const ended = await this.#runCommand(session, job, stats ?? {});
      return await this.#settle(session, job.id, ended, stats?.["pri"] ?? 1024);
    } catch (error) {
      if (error instanceof JobLost) tell(`runnerbean: ${error.message}`);
      else this.#lose(error);
      tell(`runnerbean: job ${job.id} is not settled: the server that has it hands it out again`);
      return false;
    }
  }

  async #runCommand(
    session: WireSession,
    { id, body }: Reserved,
    { tube = "", ttr }: Readonly<Record<string, string | number>>,
  ): Promise<Ended> {
    const ttrMs = (Number(ttr) || TTR_SECONDS) * 1000;
    // A longer timer would fire at once, repeatedly.
    const touchMs = Math.min(Math.max(500, ttrMs * TOUCH_SHARE), this.#tells ? ASK_MS_MAX : TIMER_MS_MAX);
    const running = runJob(this.#options.command, { id, body, tube: `${tube}` });
    this.#running = running;
    let isCancelled = false;
    const touch = setInterval(() => {
      const command = this.#tells ? `touch-job ${id}` : `touch ${id}`;
      const onReply = ({ words: [, cancelled] }: Reply): void => {
        if (cancelled === undefined || isCancelled) return;
        isCancelled = true;
        tell(
          `runnerbean: job ${id} was ${printable(unescaped(cancelled.replace("=", ": ").replace(/: $/, "")))}`,
        );
        running.send("SIGTERM");
      };
      session.ask(command, "TOUCHED NOT_FOUND").then(onReply, () => {});
    }, touchMs);
    try {
      return { ...(await running.ended), isCancelled };
    } finally {
      clearInterval(touch);
      this.#running = undefined;
    }
  }

  async #settle(
    session: WireSession,
    id: number,
    { exitCode, signal, reason, isCancelled }: Ended,
    pri: string | number,
  ): Promise<boolean> {
    if (exitCode === 0) {
      await this.#delete(session, id);
      return true;
    }
    // It goes, which is no failure.
    if (isCancelled === true) {
      await session.ask(`release ${id} ${pri} 0`, "RELEASED NOT_FOUND");
      return true;
    }
    const because = this.#takesReasons ? reasonText(reason) : "";
    // A supervisor that stops the worker may send the signal to the command, too.
    const isStopped = this.#stopping.signal.aborted && isStopSignal(signal);
    if (isStopped || exitCode === TEMPORARY_FAILURE)
      await session.ask(`release ${id} ${pri} 0${isStopped ? "" : because}`, "RELEASED NOT_FOUND");
    else await session.ask(`bury ${id} ${pri}${because}`, "BURIED NOT_FOUND");
    return false;
  }

  /** The finished work need not be repeated, even if the connection has broken. */
  async #delete(session: WireSession, id: number): Promise<void> {
    try {
      return await session.delete(id);
    } catch (error) {
      this.#lose(error);
    }
    // A stop doesn't end this.
    const next = await this.#connected(undefined);
    await next!.delete(id, session);
  }

  /** Drops a broken connection. Throws any other error, after which the worker can't continue. */
  #lose(error: unknown): void {
    if (!(error instanceof ConnectionLost)) throw error;
    if (this.#session === undefined) return;
    this.#session.drop();
    this.#session = undefined;
    if (!this.#stopping.signal.aborted) tell(`runnerbean: ${error.message}; reconnecting`);
  }

  /** Returns the session. Tries to open one for up to `--timeout`; undefined after `stop`. */
  async #connected(stop: AbortSignal | undefined): Promise<WireSession | undefined> {
    const { limitMs } = this.#options.target;
    const endsAtMs = performance.now() + limitMs;
    while (this.#session === undefined) {
      const delayMs = Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** this.#retries++) * (1 - Math.random() / 2);
      await sleep(delayMs, undefined, stop === undefined ? {} : { signal: stop }).catch(() => {});
      if (stop?.aborted === true) return undefined;
      try {
        await this.#open();
      } catch (error) {
        if (!(error instanceof ConnectionLost || isRefused(error))) throw error;
        if (performance.now() >= endsAtMs)
          throw new CommandFailed(
            `no connection for ${Math.round(limitMs / 1000)} s: ${(error as Error).message}`,
            ExitCode.NoConnection,
          );
      }
    }
    return this.#session;
  }

  async #open(): Promise<void> {
    const session = await WireSession.open(this.#options.target);
    try {
      await session.watchOnly(this.#options.tubes);
      // A name, for the failures that the server records.
      this.#takesReasons = await session.has("name");
      this.#tells = await session.has("touch-job");
      void session.origins();
      if (this.#takesReasons) await session.ask(`name ${clientName(undefined)}`, "NAMED");
      this.#session = session;
    } catch (error) {
      session.drop();
      throw error;
    }
  }
}

const isRefused = (error: unknown): boolean =>
  error instanceof CommandFailed && error.exitCode === ExitCode.NoConnection;

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
      "--wait <time>",
      "how long to wait for a job (default: forever)",
      durationWithin(0, TIMEOUT_SECONDS_MAX, true),
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
