// `batch`: opens, commits and cancels batches of jobs, and shows their progress.

import type { Command } from "commander";
import { type BatchReport, batchList, type ListedBatch, openBatchLine } from "../../client/batch.ts";
import { parseReport } from "../../client/command-text.ts";
import type { Reply } from "../../client/wire.ts";
import { duration, batch as name } from "../argument.ts";
import { CommandFailed, ExitCode, print, printOne, printRows } from "../output.ts";
import { type CommonOptions, newCommand, newGroup, withWire } from "../run.ts";
import type { WireSession } from "../wire-session.ts";

const PAGE = 1000;

export function batchCommand(): Command {
  return newGroup("batch", "open, commit and cancel batches of jobs, and show their progress", [
    list(),
    show(),
    open(),
    change("commit", "COMMITTED", "committed", "take no more members"),
    change("cancel", "CANCELLED", "cancelled", "remove the members that no worker holds"),
  ]);
}

/** Opens a connection to a server that has batches. */
const withBatches = (
  options: CommonOptions,
  action: (session: WireSession) => Promise<void>,
): Promise<void> => withWire(options, action, "open-batch");

function list(): Command {
  return newCommand("list", "list all batches in the order in which they were opened").action(
    (options: CommonOptions) =>
      withBatches(options, async (session) => {
        const found = await all(session);
        printRows(
          found.map((batch) => ({ ...batch })),
          ["name", "state", "outcome"],
          options,
        );
        if (found.length === 0) process.exitCode = ExitCode.Nothing;
      }),
  );
}

async function all(session: WireSession): Promise<ListedBatch[]> {
  const found: ListedBatch[] = [];
  let after = 0;
  do {
    const { body } = await session.ask(`list-batches after=${after} limit=${PAGE}`, "OK");
    const { next, items } = batchList(body, after);
    found.push(...items);
    after = next;
  } while (after > 0);
  return found;
}

function show(): Command {
  return newCommand("show <name>", "show how many members of a batch have ended, and how", { name }).action(
    (name: string, options: CommonOptions) =>
      withBatches(options, async (session) => {
        const { body } = await ask(session, `inspect-batch ${name}`, name, "OK");
        const { forgetsIn, ...report } = parseReport<BatchReport>(body);
        const isComplete = report.state === "complete";
        if (options.json === true)
          print(JSON.stringify({ ...report, "forgets-in": isComplete ? forgetsIn : null }));
        else printOne({ ...report, "forgets-in": isComplete ? forgetsIn : "not complete yet" }, options);
      }),
  );
}

function open(): Command {
  return newCommand("open <name>", "open a batch; put jobs into it with put --batch", { name })
    .option("--keep <time>", "how long the server remembers the complete batch (default: a day)", duration)
    .action((name: string, options: CommonOptions & { keep?: string }) =>
      withBatches(options, async (session) => {
        const keep = options.keep === undefined ? undefined : Number(options.keep);
        await session.ask(openBatchLine(name, keep), "OPENED");
        print(options.json === true ? JSON.stringify({ name, opened: true }) : `opened ${name}`);
      }),
    );
}

function change(verb: string, accept: string, done: string, description: string): Command {
  return newCommand(`${verb} <name>`, description, { name }).action((name: string, options: CommonOptions) =>
    withBatches(options, async (session) => {
      await ask(session, `${verb}-batch ${name}`, name, accept);
      print(options.json === true ? JSON.stringify({ name, [done]: true }) : `${done} ${name}`);
    }),
  );
}

async function ask(session: WireSession, command: string, name: string, accept: string): Promise<Reply> {
  const reply = await session.ask(command, `${accept} NOT_FOUND`);
  if (reply.words[0] === "NOT_FOUND") throw new CommandFailed(`there is no batch ${name}`, ExitCode.Nothing);
  return reply;
}
