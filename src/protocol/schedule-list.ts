// Lists of schedules: a page, as text for clients and as lines that shards send to the acceptor.

import { LIST_TEXT_BYTES_MAX } from "./option-rows.ts";

/** A schedule in a list. */
export interface ScheduleLine {
  readonly name: string;
  readonly line: string;
}

/** A page of a shard's schedules. */
export interface SchedulePage {
  readonly lines: readonly ScheduleLine[];
  /** Whether the shard has more after these. */
  readonly hasMore: boolean;
}

/** Cuts sorted lines to a page of at most `limit` lines and LIST_TEXT_BYTES_MAX bytes. */
export function schedulePage(lines: readonly ScheduleLine[], limit: number, hasMore: boolean): SchedulePage {
  let bytes = 0;
  let count = 0;
  while (count < lines.length && count < limit) {
    bytes += lines[count]!.line.length;
    if (count > 0 && bytes > LIST_TEXT_BYTES_MAX) break;
    count++;
  }
  return { lines: lines.slice(0, count), hasMore: hasMore || count < lines.length };
}

/** Merges the pages of several shards, which all begin at the same place. */
export function mergedSchedules(pages: readonly SchedulePage[], limit: number): SchedulePage {
  // After the last line of a page with `hasMore`, its shard may have other schedules.
  const ends = pages.filter(({ hasMore }) => hasMore).map(({ lines }) => lines.at(-1)?.name ?? "");
  const end = ends.reduce<string | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined);
  const byName = new Map<string, ScheduleLine>();
  // A schedule that has moved meanwhile may be on two pages.
  for (const { lines } of pages)
    for (const line of lines) if (end === undefined || line.name <= end) byName.set(line.name, line);
  const sorted = [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  return schedulePage(sorted, limit, end !== undefined);
}

export function scheduleListText({ lines, hasMore }: SchedulePage): string {
  const next = JSON.stringify(hasMore ? (lines.at(-1)?.name ?? "") : "");
  const text = lines.map(({ line }) => line).join("");
  return `---\nnext: ${next.replace(/[\x7f-\xff]/g, escaped)}\nschedules:${text === "" ? " []\n" : `\n${text}`}`;
}

const escaped = (byte: string): string => `\\u00${byte.charCodeAt(0).toString(16)}`;
