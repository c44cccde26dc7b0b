// Many jobs of a tube, chosen by state, age and text: listed, or cleared.

import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import { CommandFailed, ExitCode } from "../exit-code.ts";
import { print, printable, printRows, type Row } from "../output.ts";
import { type CommonOptions, newCommand, withWire } from "../run.ts";
import type { WireSession } from "../wire-session.ts";

const SHOWN_BYTES = 80;
const LIST_MAX = 1000;

interface FilterOptions extends CommonOptions {
  readonly state?: string;
  readonly older?: string;
  readonly text?: string;
}

export function jobsCommands(): Command[] {
  return [jobs(), clear()];
}

function withFilter(command: Command): Command {
  return command
    .option("--state <states>", "only ready, delayed, buried, reserved; with commas between them")
    .option("--older <seconds>", "only jobs that were put so long ago")
    .option("--text <text>", "only jobs whose bodies have this text somewhere");
}

function filterOf({ state, older, text }: FilterOptions): string {
  const encoded = (value: string): string =>
    [...Buffer.from(value)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
  return [
    state === undefined ? "" : ` state=${state}`,
    older === undefined ? "" : ` older=${older}`,
    text === undefined ? "" : ` contains=${encoded(text)}`,
  ].join("");
}

/** A part of the list, and where the next one begins. */
async function listPart(session: WireSession, command: string): Promise<{ jobs: Row[]; next: number }> {
  const { body } = await session.ask(command, "OK");
  const lines = Buffer.from(body ?? [])
    .toString("latin1")
    .split("\n");
  const next = Number(/^next: (\d+)$/.exec(lines[1] ?? "")?.[1] ?? 0);
  const found = lines.filter((line) => line.startsWith("- ")).map((line) => JSON.parse(line.slice(2)) as Row);
  return { jobs: found, next };
}

function jobs(): Command {
  return withFilter(newCommand("jobs <tube>", "jobs of a tube, the oldest first"))
    .option("--limit <n>", "so many at most", "100")
    .action((tube: string, options: FilterOptions & { limit: string }) =>
      withWire(options, async (session) => {
        await session.needs("list-jobs");
        const limit = Number(options.limit);
        if (!(limit >= 1)) throw new CommandFailed("--limit is a number from 1 on", ExitCode.BadArguments);
        const filter = filterOf(options);
        const found: Row[] = [];
        for (let next = -1; next !== 0 && found.length < limit; ) {
          const most = Math.min(LIST_MAX, limit - found.length);
          const after = next < 0 ? "" : ` after=${next}`;
          const part = await listPart(
            session,
            `list-jobs ${tube}${filter}${after} limit=${most} show=${SHOWN_BYTES}`,
          );
          found.push(...part.jobs.map((job) => ({ ...job, body: textOf(job["body"]) })));
          next = part.next;
        }
        const columns = ["id", "state", "pri", "age", "time-left", "reserves", "timeouts", "bytes", "body"];
        printRows(found, columns, options);
        if (found.length === 0) process.exitCode = ExitCode.Nothing;
      }),
    );
}

/** Each character of a listed body is a byte. */
const textOf = (body: unknown): string => printable(Buffer.from(`${body ?? ""}`, "latin1").toString("utf8"));

interface ClearOptions extends FilterOptions {
  readonly dryRun?: true;
  readonly yes?: true;
}

function clear(): Command {
  return withFilter(newCommand("clear <tube>", "delete the jobs of a tube that nobody has reserved"))
    .option("--dry-run", "only count them")
    .option("--yes", "do not ask")
    .action((tube: string, options: ClearOptions) =>
      withWire(options, async (session) => {
        await session.needs("clear-tube");
        if (options.dryRun === true || mustAsk(options)) {
          const count = await countJobs(session, tube, options);
          if (options.dryRun === true) {
            print(`would clear ${count}`);
            return;
          }
          if (!(await isAgreed(`Delete ${count} jobs of ${tube}? [y/N] `)))
            throw new CommandFailed("nothing was deleted", ExitCode.Nothing);
        }
        const { words } = await session.ask(`clear-tube ${tube}${filterOf(options)}`, "CLEARED");
        print(`cleared ${words[1]}`);
      }),
    );
}

/** In a script nobody could answer, so there --yes is needed. */
function mustAsk({ yes, dryRun }: ClearOptions): boolean {
  if (yes === true || dryRun === true) return false;
  if (process.stdin.isTTY) return true;
  throw new CommandFailed("to delete without being asked: --yes", ExitCode.BadArguments);
}

async function countJobs(session: WireSession, tube: string, options: ClearOptions): Promise<number> {
  const filter = filterOf({ ...options, state: options.state ?? "ready,delayed,buried" });
  let count = 0;
  for (let next = -1; next !== 0; ) {
    const after = next < 0 ? "" : ` after=${next}`;
    const part = await listPart(session, `list-jobs ${tube}${filter}${after} limit=${LIST_MAX}`);
    count += part.jobs.length;
    next = part.next;
  }
  return count;
}

async function isAgreed(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question(question);
  terminal.close();
  return /^y(?:es)?$/i.test(answer.trim());
}
