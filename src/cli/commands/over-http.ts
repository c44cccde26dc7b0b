// What only the HTTP side tells: health, threads, latency, the server, its log.

import type { Command } from "commander";
import { ExitCode } from "../exit-code.ts";
import { askHttp, getHttp } from "../http-session.ts";
import { print, printOne, printRows, type Row } from "../output.ts";
import { type CommonOptions, newCommand, withTarget } from "../run.ts";

export function httpCommands(): Command[] {
  return [
    health(),
    shown("server", "version, options, state, memory", "/v1/server"),
    shown("threads", "turns, messages, sleeps of each thread", "/v1/threads", "threads"),
    shown("latency", "how long jobs wait and are held, as quantiles", "/v1/latency"),
  ];
}

function health(): Command {
  return newCommand("health", "whether the server is ready; exit code 0, 1 or 3")
    .option("--for <what>", "put or work: ready for that")
    .option("--live", "whether it lives, instead")
    .action((options: CommonOptions & { for?: string; live?: true }) =>
      withTarget(options, async (target) => {
        const query = options.for === undefined ? "" : `?${new URLSearchParams({ for: options.for })}`;
        const { status, body } = await askHttp(
          target,
          "GET",
          options.live === true ? "/livez" : `/readyz${query}`,
        );
        print(typeof body === "string" ? body : JSON.stringify(body));
        if (status !== 200) process.exitCode = ExitCode.Nothing;
      }),
    );
}

/** `list` names what of the answer is a list. */
function shown(name: string, description: string, path: string, list = "items"): Command {
  return newCommand(name, `${description} (over HTTP)`).action((options: CommonOptions) =>
    withTarget(options, async (target) => show(await getHttp(target, path), list, options)),
  );
}

/** A list as a table, anything else as keys and values; what is inside becomes a path, "memory.heap". */
function show(body: unknown, name: string, options: CommonOptions): void {
  const list = Array.isArray(body) ? body : (body as Readonly<Record<string, unknown>>)[name];
  if (!Array.isArray(list)) {
    printOne(flat(body), options);
    return;
  }
  const rows = list.map(flat);
  printRows(rows, [...new Set(rows.flatMap((row) => Object.keys(row)))], options);
}

function flat(value: unknown): Row {
  const row: Record<string, string | number | boolean | null> = {};
  const visit = (each: unknown, path: string): void => {
    if (typeof each === "object" && each !== null && Object.keys(each).length > 0)
      for (const [key, inner] of Object.entries(each)) visit(inner, path === "" ? key : `${path}.${key}`);
    else row[path] = typeof each === "object" ? JSON.stringify(each) : (each as string | number | boolean);
  };
  visit(value, "");
  return row;
}
