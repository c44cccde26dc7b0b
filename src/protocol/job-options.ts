// The options of commands that concern many jobs of a tube, and those of one that changes a job.

import { U32_MAX } from "./limits.ts";
import { OptionKind, type OptionRow, OptionTag } from "./option-rows.ts";

/** The words of `state`. */
export const STATE_WORDS = ["ready", "delayed", "buried", "reserved"] as const;

/** Most jobs in a list, and in one that does not say; most bytes of a body that it shows, and of all its lines. */
export const LIST_LIMIT_MAX = 1000;
export const LIST_LIMIT_USUAL = 100;
export const SHOWN_BYTES_MAX = 4096;
export const LIST_TEXT_BYTES_MAX: number = 48 * 1024;

/** The text of a list: behind which id the next one goes on, 0 for nowhere, and a line for each job. */
export function listText(next: number, lines: readonly string[]): string {
  return `---\nnext: ${next}\njobs:${lines.length === 0 ? " []\n" : `\n${lines.join("")}`}`;
}

const limit = (max: number, usage: string): OptionRow => ({
  name: "limit",
  tag: OptionTag.Limit,
  kind: OptionKind.Number,
  min: 1,
  max,
  usage,
});

/** Which jobs of a tube are meant. */
const FILTERS: readonly OptionRow[] = [
  { name: "state", tag: OptionTag.State, kind: OptionKind.Words, words: STATE_WORDS, usage: "<states>" },
  { name: "older", tag: OptionTag.Older, kind: OptionKind.Duration, usage: "<age>" },
  { name: "contains", tag: OptionTag.Contains, kind: OptionKind.Text, usage: "<text>" },
  { name: "group", tag: OptionTag.Group, kind: OptionKind.Text, usage: "<key>" },
];

export const LIST_OPTIONS: readonly OptionRow[] = [
  ...FILTERS,
  {
    name: "after",
    tag: OptionTag.After,
    kind: OptionKind.Number,
    max: Number.MAX_SAFE_INTEGER,
    usage: "<id>",
  },
  limit(LIST_LIMIT_MAX, "<1..1000>"),
  { name: "show", tag: OptionTag.Show, kind: OptionKind.Number, max: SHOWN_BYTES_MAX, usage: "<bytes>" },
];

/** Reserved jobs are their holders': they are not moved. */
export const MOVE_OPTIONS: readonly OptionRow[] = [
  {
    name: "state",
    tag: OptionTag.State,
    kind: OptionKind.Words,
    words: STATE_WORDS.slice(0, 3),
    usage: "<states>",
  },
  ...FILTERS.slice(1),
  { name: "as", tag: OptionTag.As, kind: OptionKind.Word, words: ["ready"], usage: "ready" },
  limit(U32_MAX, "<count>"),
];

export const CLEAR_OPTIONS: readonly OptionRow[] = [...FILTERS, limit(U32_MAX, "<count>")];

/** What update-job changes. */
export const UPDATE_OPTIONS: readonly OptionRow[] = [
  { name: "pri", tag: OptionTag.Pri, kind: OptionKind.Number, max: U32_MAX, usage: "<pri>" },
  { name: "delay", tag: OptionTag.Delay, kind: OptionKind.Duration, usage: "<delay>" },
  { name: "ttr", tag: OptionTag.Ttr, kind: OptionKind.Number, max: U32_MAX, usage: "<ttr>" },
  { name: "ttl", tag: OptionTag.Ttl, kind: OptionKind.Duration, usage: "<duration>" },
  { name: "tube", tag: OptionTag.Tube, kind: OptionKind.Tube, usage: "<tube>" },
];
