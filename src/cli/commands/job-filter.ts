// Job filter by state, age, text and group: its options, their form in the protocol, and a walk
// over the list.

import type { Command } from "commander";
import { optionsText } from "../../client/command-text.ts";
import { listedJob, listOf } from "../../client/dictionary.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import { duration, soughtText, states, whole } from "../argument.ts";
import type { Row } from "../output.ts";
import type { CommonOptions } from "../run.ts";
import { BULK_MS, type WireSession } from "../wire-session.ts";

/** Maximum of jobs in one reply. */
const LIST_MAX = 1000;

export interface FilterOptions extends CommonOptions {
  readonly state?: string;
  readonly older?: string;
  readonly text?: string;
  readonly group?: string;
  readonly limit?: string;
}

export function withFilter(command: Command, limit?: string): Command {
  return command
    .option(
      "--state <states>",
      "only jobs in these states: ready, delayed, buried, reserved; separated by commas",
      states,
    )
    .option("--older <seconds>", "only jobs that were put at least this long ago", duration)
    .option("--text <text>", "only jobs whose bodies contain this text", soughtText)
    .option("--group <key>", "only jobs of this group", soughtText)
    .option("--limit <n>", "at most this many, the oldest first", whole(1, U32_MAX), limit);
}

/** Returns the filter as options of the protocol, without the limit. */
export function filterText({ state, older, text, group }: FilterOptions): string {
  return `${optionsText({ state, older })}${optionsText({ contains: text, group }, true)}`;
}

/** Returns the limit; Infinity without one. */
export const limitOf = ({ limit }: FilterOptions): number =>
  limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);

/**
 * Yields the matching jobs page by page in order of their ids, with the first `shownBytes` of each
 * body.
 */
export async function* listJobs(
  session: WireSession,
  tube: string,
  options: FilterOptions,
  shownBytes = 0,
): AsyncGenerator<Row[], void, undefined> {
  let after = 0;
  for (let left = limitOf(options); left > 0; ) {
    const limit = Math.min(LIST_MAX, left);
    const show = shownBytes === 0 ? "" : ` show=${shownBytes}`;
    const { body } = await session.ask(
      `list-jobs ${tube}${filterText(options)} after=${after} limit=${limit}${show}`,
      "OK",
      undefined,
      BULK_MS,
    );
    const { next, items } = listOf(body, after);
    const jobs = items.map((item) => listedJob(item) as Row);
    if (jobs.length > 0) yield jobs;
    left -= jobs.length;
    if (next === 0) return;
    after = next;
  }
}
