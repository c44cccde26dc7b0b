// Commands that change jobs and tubes: delete, kick, pause, resume.

import type { Command } from "commander";
import { U32_MAX } from "../../protocol/limits.ts";
import { id, seconds, tube, tubeOrId, whole } from "../argument.ts";
import { CommandFailed, ExitCode } from "../exit-code.ts";
import { print, printDone } from "../output.ts";
import { type CommonOptions, newCommand, withWire } from "../run.ts";
import { countOf } from "../wire-session.ts";

export function changeCommands(): Command[] {
  return [remove(), kick(), pause(), resume()];
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
  return newCommand("pause <tube> <seconds>", "stop reservations from a tube for a while", {
    tube,
    seconds,
  }).action((name: string, time: string, options: CommonOptions) => pauseFor(name, time, options));
}

function resume(): Command {
  return newCommand("resume <tube>", "end a pause", { tube }).action((name: string, options: CommonOptions) =>
    pauseFor(name, "0", options),
  );
}

function pauseFor(name: string, time: string, options: CommonOptions): Promise<void> {
  return withWire(options, async (session) => {
    const { words } = await session.ask(`pause-tube ${name} ${time}`, "PAUSED NOT_FOUND");
    if (words[0] === "NOT_FOUND") throw new CommandFailed(`there is no tube ${name}`, ExitCode.Nothing);
    if (options.json === true) printDone("paused", Number(time), options);
    else print(Number(time) === 0 ? "resumed" : `paused for ${time} s`);
  });
}
