// Commands that change jobs and tubes: delete, cancel, kick, pause, resume.

import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import { optionsText, shortText } from "../../client/command-text.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import { duration, id, seconds, tube, tube as tubeName, tubeOrAll, tubeOrId, whole } from "../argument.ts";
import { CommandFailed, ExitCode, print, printDone, tell } from "../output.ts";
import { type CommonOptions, newCommand, withWire } from "../run.ts";
import { BULK_MS, countOf, type WireSession } from "../wire-session.ts";
import { type FilterOptions, filterText, limitOf, listJobs, withFilter } from "./jobs.ts";

export function changeCommands(): Command[] {
  return [remove(), cancel(), kick(), pause(), resume()];
}

function remove(): Command {
  return newCommand("delete <ids...>", "delete jobs by their ids", { ids: id }).action(
    (ids: string[], options: CommonOptions) =>
      withWire(options, async (session) => {
        const replies = await Promise.all(ids.map((id) => session.ask(`delete ${id}`, "DELETED NOT_FOUND")));
        const missing = ids.filter((_, index) => replies[index]!.words[0] === "NOT_FOUND");
        printDone("deleted", ids.length - missing.length, options);
        if (missing.length === 0) return;
        const exitCode = missing.length < ids.length ? ExitCode.Partly : ExitCode.Nothing;
        throw new CommandFailed(`missing, or reserved by another client: ${missing.join(", ")}`, exitCode);
      }),
  );
}

function cancel(): Command {
  return newCommand(
    "cancel <ids...>",
    "remove jobs that wait, and tell the workers of reserved ones to stop",
    { ids: id },
  )
    .option("--reason <text>", "why, for the workers, up to 200 bytes")
    .action((ids: string[], options: CommonOptions & { reason?: string }) =>
      withWire(options, async (session) => {
        await session.needs("cancel-job");
        const { reason = "" } = options;
        const text = reason === "" ? "" : ` reason=${shortText(reason)}`;
        const replies = await Promise.all(
          ids.map((id) => session.ask(`cancel-job ${id}${text}`, "CANCELLED CANCELLING NOT_FOUND")),
        );
        const answered = (word: string): string[] => ids.filter((_, at) => replies[at]!.words[0] === word);
        const [held, missing] = [answered("CANCELLING"), answered("NOT_FOUND")];
        printDone("cancelled", ids.length - missing.length, options);
        if (held.length > 0) tell(`held by workers, which are told: ${held.join(", ")}`);
        if (missing.length === 0) return;
        const exitCode = missing.length < ids.length ? ExitCode.Partly : ExitCode.Nothing;
        throw new CommandFailed(`missing: ${missing.join(", ")}`, exitCode);
      }),
    );
}

function kick(): Command {
  return newCommand(
    "kick <what> [count]",
    "make buried jobs of a tube ready, or delayed ones if there are none; or one job by its id",
    { what: tubeOrId, count: whole(0, U32_MAX) },
  )
    .option("--tube", "the first argument is a tube name, even if it looks like an id")
    .action((what: string, count: string | undefined, options: CommonOptions & { tube?: true }) =>
      withWire(options, async (session) => {
        if (/^\d+$/.test(what) && options.tube !== true) {
          const { words } = await session.ask(`kick-job ${what}`, "KICKED NOT_FOUND");
          if (words[0] === "NOT_FOUND")
            throw new CommandFailed(`no buried or delayed job ${what}`, ExitCode.Nothing);
          printDone("kicked", 1, options);
          return;
        }
        const reply = await session.inTube(what, `kick ${count ?? U32_MAX}`, "KICKED");
        printDone("kicked", countOf(reply), options);
      }),
    );
}

function pause(): Command {
  return newCommand(
    "pause <tube> [time]",
    "stop reservations from a tube for a time or, without one, until it is resumed, even after a restart",
    { tube, time: seconds },
  ).action((name: string, time: string | undefined, options: CommonOptions) =>
    withWire(options, async (session) => {
      if (time === undefined) await pauseUntilResumed(session, name);
      else await pauseTube(session, name, time);
      if (options.json === true) print(JSON.stringify({ paused: time === undefined ? "yes" : Number(time) }));
      else print(time === undefined ? `paused until "runnerbean resume ${name}"` : pausedFor(time));
    }),
  );
}

function resume(): Command {
  return newCommand("resume <tube>", "end a pause, also one by the setting paused=yes", { tube }).action(
    (name: string, options: CommonOptions) =>
      withWire(options, async (session) => {
        // The settings first: a token that may not change them leaves all as it is.
        const hasEnded = (await session.has("inspect-tube")) && (await endLastingPause(session, name));
        // A tube may have a setting without having jobs.
        if (hasEnded) await session.ask(`pause-tube ${name} 0`, "PAUSED NOT_FOUND");
        else await pauseTube(session, name, "0");
        if (options.json === true) printDone("paused", 0, options);
        else print(pausedFor("0"));
      }),
  );
}

const pausedFor = (time: string): string => (Number(time) === 0 ? "resumed" : `paused for ${time} s`);

const noTube = (name: string): CommandFailed =>
  new CommandFailed(`there is no tube ${name}`, ExitCode.Nothing);

async function pauseTube(session: WireSession, name: string, time: string): Promise<void> {
  const { words } = await session.ask(`pause-tube ${name} ${time}`, "PAUSED NOT_FOUND");
  if (words[0] === "NOT_FOUND") throw noTube(name);
}

async function pauseUntilResumed(session: WireSession, name: string): Promise<void> {
  await session.needs("set-tube", "a pause without a time");
  if ((await session.report(`stats-tube ${name}`)) === undefined) throw noTube(name);
  await session.ask(`set-tube ${name} paused=yes`, "SET");
}

/**
 * Removes the tube's own `paused=yes`. If a pattern pauses it, too, gives it `paused=no`. Returns
 * whether there was such a pause.
 */
async function endLastingPause(session: WireSession, name: string): Promise<boolean> {
  const pausedBy = async (): Promise<string | undefined> => {
    const report = await session.report(`inspect-tube ${name}`);
    return report?.["paused"] === "yes" ? `${report["paused-from"]}` : undefined;
  };
  const first = await pausedBy();
  if (first === undefined) return false;
  if (first === name) await session.ask(`set-tube ${name} paused=`, "SET");
  const pattern = first === name ? await pausedBy() : first;
  if (pattern === undefined) return true;
  await session.ask(`set-tube ${name} paused=no`, "SET");
  tell(`${name} has paused=no of its own now; the other tubes of ${pattern} stay paused`);
  return true;
}

// Commands that change many jobs of a tube after a confirmation: clear, move, redrive, update.

interface ManyOptions extends FilterOptions {
  readonly dryRun?: true;
  readonly yes?: true;
}

interface MoveOptions extends ManyOptions {
  readonly asReady?: true;
}

interface UpdateOptions extends ManyOptions {
  readonly pri?: string;
  readonly delay?: string;
  readonly ttr?: string;
  readonly ttl?: string;
}

export function manyJobsCommands(): Command[] {
  return [clear(), move(), redrive(), update()];
}

const withQuestion = (command: Command): Command =>
  withFilter(command)
    .option("--dry-run", "only count the jobs, change nothing")
    .option("--yes", "do not ask for confirmation");

function clear(): Command {
  return withQuestion(
    newCommand("clear <tube>", "delete the jobs of a tube that are not reserved", { tube: tubeName }),
  ).action((tube: string, options: ManyOptions) =>
    withWire(options, async (session) => {
      await session.needs("clear-tube");
      if (!(await isAgreed(session, tube, options, ["clear", "Delete {n} jobs of", ""]))) return;
      const command = `clear-tube ${tube}${limitedFilter(options)}`;
      const reply = await session.ask(command, "CLEARED", undefined, BULK_MS);
      printDone("cleared", countOf(reply), options);
    }),
  );
}

function move(): Command {
  const command = newCommand(
    "move <tube> <to>",
    "move jobs to another tube, keeping their states; with '*' as the target, dead jobs go back to where they died",
    { tube: tubeName, to: tubeOrAll },
  );
  return withQuestion(command)
    .option("--as-ready", "make the jobs ready, whatever their state was")
    .action((tube: string, to: string, options: MoveOptions) =>
      withWire(options, async (session) => {
        await session.needs("move-jobs");
        const where = to === "*" ? "to where they died" : `to ${to}`;
        if (!(await isAgreed(session, tube, options, ["move", "Move {n} jobs of", ` ${where}`]))) return;
        const asReady = options.asReady === true ? " as=ready" : "";
        const command = `move-jobs ${tube} ${to}${limitedFilter(options)}${asReady}`;
        const reply = await session.ask(command, "MOVED", undefined, BULK_MS);
        printDone("moved", countOf(reply), options);
      }),
    );
}

function redrive(): Command {
  const command = newCommand(
    "redrive <tube>",
    "return dead jobs to the tubes where they died, ready and with all their attempts",
    { tube: tubeName },
  );
  return withQuestion(command).action((tube: string, options: ManyOptions) =>
    withWire(options, async (session) => {
      await session.needs("move-jobs");
      const text = ["redrive", "Return {n} dead jobs of", " to where they died"] as const;
      if (!(await isAgreed(session, tube, options, text, countDead))) return;
      // Jobs that are buried where they died become ready, too.
      const command = `move-jobs ${tube} *${limitedFilter(options)} as=ready`;
      const reply = await session.ask(command, "MOVED", undefined, BULK_MS);
      printDone("redriven", countOf(reply), options);
    }),
  );
}

function update(): Command {
  return withQuestion(
    newCommand("update <tube>", "change the priority or times of jobs that are not reserved", {
      tube: tubeOrAll,
    }),
  )
    .option("--pri <n>", "priority: the smallest number is reserved first", whole(0, U32_MAX))
    .option(
      "--delay <time>",
      "make them ready after this delay; 0: at once, including buried ones if --state names them",
      duration,
    )
    .option("--ttr <time>", "time to run, starting with the next reservation", seconds)
    .option("--ttl <time>", "time to live from now on; 0: no limit", duration)
    .action((tube: string, options: UpdateOptions, self: Command) => {
      const change = changeOf(options);
      if (change === "") self.error("error: give at least one change: --pri, --delay, --ttr or --ttl");
      return withWire(options, async (session) => {
        await session.needs("update-job");
        // A delay would take buried jobs out of the buried state, so they must be requested
        // explicitly.
        const state =
          options.state ?? (options.delay === undefined ? "ready,delayed,buried" : "ready,delayed");
        const chosen = { ...options, state };
        if (!(await isAgreed(session, tube, chosen, ["update", "Change {n} jobs of", ` to${change}`])))
          return;
        let updated = 0;
        for await (const part of listJobs(session, tube, chosen)) {
          // Skips jobs reserved in the meantime.
          const asked = part.map(({ id }) => session.ask(`update-job ${id}${change}`, "UPDATED NOT_FOUND"));
          const replies = await Promise.allSettled(asked);
          updated += replies.filter(
            (each) => each.status === "fulfilled" && each.value.words[0] === "UPDATED",
          ).length;
          const failed = replies.find((each) => each.status === "rejected");
          if (failed !== undefined) throw partly(updated, failed.reason);
        }
        printDone("updated", updated, options);
      });
    });
}

/** Adds the number of changed jobs to an error. */
function partly(updated: number, error: Error): Error {
  return updated === 0
    ? error
    : new CommandFailed(`${updated} jobs are changed; ${error.message}`, ExitCode.Partly);
}

const changeOf = ({ pri, delay, ttr, ttl }: UpdateOptions): string => optionsText({ pri, delay, ttr, ttl });

function limitedFilter(options: ManyOptions): string {
  const limit = limitOf(options);
  return `${filterText(options)}${limit === Number.POSITIVE_INFINITY ? "" : ` limit=${limit}`}`;
}

/**
 * Returns true if the user agrees, and false after a dry run, which prints the count. Throws
 * otherwise.
 */
async function isAgreed(
  session: WireSession,
  tube: string,
  options: ManyOptions,
  [verb, question, rest]: readonly [verb: string, question: string, rest: string],
  counter: Counter = countJobs,
): Promise<boolean> {
  if (options.yes === true && options.dryRun !== true) return true;
  // In a script, nobody can answer.
  if (options.dryRun !== true && !process.stdin.isTTY)
    throw new CommandFailed(`cannot ask for confirmation here: ${verb} with --yes`, ExitCode.BadArguments);
  const count = await counter(session, tube, {
    ...options,
    state: options.state ?? "ready,delayed,buried",
  });
  if (options.dryRun === true) {
    print(options.json === true ? JSON.stringify({ jobs: count }) : `would ${verb} ${count}`);
    return false;
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question(`${question.replace("{n}", `${count}`)} ${tube}${rest}? [y/N] `);
  terminal.close();
  if (!/^y(?:es)?$/i.test(answer.trim())) throw new CommandFailed("nothing was done", ExitCode.Nothing);
  return true;
}

/** Counts the jobs that a command would change. */
type Counter = (session: WireSession, tube: string, options: ManyOptions) => Promise<number>;

const countJobs: Counter = async (session, tube, options) => {
  let count = 0;
  for await (const part of listJobs(session, tube, options)) count += part.length;
  return count;
};

/** A list doesn't show which jobs are dead, so this inspects each one. */
const countDead: Counter = async (session, tube, { limit, ...filter }) => {
  const most = limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);
  let count = 0;
  for await (const part of listJobs(session, tube, filter)) {
    const reports = await Promise.all(part.map(({ id }) => session.report(`inspect-job ${id}`)));
    count += reports.filter((report) => report !== undefined && report["reason"] !== "none").length;
    if (count >= most) return most;
  }
  return count;
};
