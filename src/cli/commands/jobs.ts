// `jobs`: lists the jobs of one tube or of all tubes.

import type { Command } from "commander";
import { tubeOrAll } from "../argument.ts";
import { ExitCode } from "../exit-code.ts";
import { printRows, type Row } from "../output.ts";
import { newCommand, withWire } from "../run.ts";
import { type FilterOptions, listJobs, withFilter } from "./job-filter.ts";

const SHOWN_BYTES = 80;
const ALL_TUBES = "*";
const COLUMNS = ["state", "pri", "age", "time-left", "reserves", "timeouts", "disconnects", "bytes", "body"];

export function jobsCommand(): Command {
  return withFilter(
    newCommand("jobs <tube>", "list the jobs of a tube, or of all tubes ('*'), the oldest first", {
      tube: tubeOrAll,
    }),
    "100",
  ).action((tube: string, options: FilterOptions) =>
    withWire(options, async (session) => {
      await session.needs("list-jobs");
      const found: Row[] = [];
      for await (const part of listJobs(session, tube, options, SHOWN_BYTES))
        found.push(
          ...part.map((job) => ({ ...job, disconnects: job["disconnects"] ?? 0, body: textOf(job["body"]) })),
        );
      printRows(found, [...(tube === ALL_TUBES ? ["id", "tube"] : ["id"]), ...COLUMNS], options);
      if (found.length === 0) process.exitCode = ExitCode.Nothing;
    }),
  );
}

/** Decodes a listed body, whose characters are bytes. */
const textOf = (body: unknown): string => Buffer.from(`${body ?? ""}`, "latin1").toString("utf8");
