// Descriptions of an extension's options, `name=value`, and the tags under which they travel to a
// shard.

import { SETTINGS } from "../schema/setting.ts";
import { COST_MAX, U32_MAX, WEIGHT_MAX } from "./limits.ts";

/**
 * Tags of options, 1 to 255. Only threads of one process exchange them. 48 to 79 are those of the
 * settings of tubes (schema/setting.ts).
 */
export const OptionTag = {
  State: 1,
  Older: 2,
  Contains: 3,
  After: 4,
  Limit: 5,
  Show: 6,
  Bytes: 7,
  Tubes: 8,
  Abort: 9,
  WithMeta: 14,
  Min: 15,
  Linger: 16,
  OneGroup: 17,
  Pri: 10,
  Delay: 11,
  Ttr: 12,
  Reason: 13,
  Unique: 32,
  UniqueFor: 33,
  UniqueUntil: 34,
  Ttl: 35,
  Group: 36,
  Weight: 37,
  OnDuplicate: 38,
  DebounceMax: 39,
  Meta: 40,
  Cost: 41,
  As: 80,
  Tube: 81,
  /** The name of a schedule, an argument that travels as the first of the options. */
  Schedule: 96,
  Cron: 97,
  Every: 98,
  Zone: 99,
  Missed: 100,
  AfterName: 101,
  Batch: 102,
  AfterBatch: 103,
  AfterAny: 104,
  Keep: 105,
  Before: 106,
  Progress: 107,
  Note: 108,
  Overlap: 109,
} as const;
export type OptionTag = (typeof OptionTag)[keyof typeof OptionTag];

/** How the parser reads a value. */
export const OptionKind = {
  /** Digits: a number from `min` to `max`. */
  Number: 0,
  /** Seconds with up to three decimals. The value is in ms. */
  Duration: 1,
  /** Bytes, in which `%XX` stands for one byte. */
  Text: 2,
  /** One of `words`; the value is its index. */
  Word: 3,
  /** Some of `words`, separated by commas; the value is a bit set. */
  Words: 4,
  /** Bytes without control characters, taken literally. */
  Key: 5,
  /** A tube name. */
  Tube: 6,
  /** `<n>/<seconds>`, each from 1 to 4294967295; the value is the text itself. */
  Rate: 7,
  /** `<name>:<value>`: letters, digits, `-`, `_` and `.`; then bytes like a Key's, or none. */
  Pair: 8,
} as const;
export type OptionKind = (typeof OptionKind)[keyof typeof OptionKind];

export interface OptionRow {
  readonly name: string;
  readonly tag: OptionTag;
  readonly kind: OptionKind;
  /** Minimum of a number. */
  readonly min?: number;
  readonly max?: number;
  readonly words?: readonly string[];
  /** An option that must not occur together with this one. */
  readonly excludes?: OptionTag;
  /** May be given several times. */
  readonly repeats?: true;
  /** An empty value removes the setting. */
  readonly mayBeEmpty?: true;
  /** The value as help texts write it. */
  readonly usage: string;
}

/** Maximum bytes of a value on the line. */
export const OPTION_VALUE_BYTES_MAX = 200;
/** Maximum bytes of an option's name. */
export const OPTION_NAME_BYTES_MAX = 32;
/** Maximum bytes of all encoded options of a line. */
export const OPTIONS_BYTES_MAX = 1020;

// The options of reserve-batch.

export const batchBytes: OptionRow = {
  name: "bytes",
  tag: OptionTag.Bytes,
  kind: OptionKind.Number,
  min: 1,
  usage: "<bodies' bytes>",
};
export const batchTubes: OptionRow = {
  name: "tubes",
  tag: OptionTag.Tubes,
  kind: OptionKind.Word,
  words: ["yes"],
  usage: "yes",
};
export const batchAbort: OptionRow = {
  name: "abort",
  tag: OptionTag.Abort,
  kind: OptionKind.Word,
  words: ["yes"],
  usage: "yes",
};
export const batchMin: OptionRow = {
  name: "min",
  tag: OptionTag.Min,
  kind: OptionKind.Number,
  min: 1,
  usage: "<jobs>",
};
export const batchLinger: OptionRow = {
  name: "linger",
  tag: OptionTag.Linger,
  kind: OptionKind.Duration,
  usage: "<duration>",
};
export const batchOneGroup: OptionRow = {
  name: "one-group",
  tag: OptionTag.OneGroup,
  kind: OptionKind.Word,
  words: ["yes"],
  usage: "yes",
};
export const batchMeta: OptionRow = {
  name: "meta",
  tag: OptionTag.WithMeta,
  kind: OptionKind.Word,
  words: ["yes"],
  usage: "yes",
};

// Settings of tubes, as options of set-tube and as words in a line of `--tubes FILE`.

/** How the parser reads each kind of setting, and how help texts write its value. */
const SETTING_KINDS = {
  number: { kind: OptionKind.Number, usage: "<n>" },
  bytes: { kind: OptionKind.Number, max: Number.MAX_SAFE_INTEGER, usage: "<n>" },
  duration: { kind: OptionKind.Duration, usage: "<duration>" },
  tube: { kind: OptionKind.Tube, usage: "<tube>" },
  word: { kind: OptionKind.Word, usage: "" },
  rate: { kind: OptionKind.Rate, usage: "<n>/<seconds>" },
} as const;

export const SETTING_ROWS: readonly OptionRow[] = SETTINGS.map(({ word, tag, kind, min, max, words }) => ({
  name: word,
  tag: tag as OptionTag,
  mayBeEmpty: true,
  ...SETTING_KINDS[kind],
  ...(min === undefined ? {} : { min }),
  ...(max === undefined ? {} : { max }),
  ...(words === undefined ? {} : { words: Object.keys(words), usage: Object.keys(words).join("|") }),
}));
// Options of commands that put, list, move, clear or update jobs.

/** The words of the option `state`. */
const STATE_WORDS = ["ready", "delayed", "buried", "reserved"] as const;

/** Limits of a list: jobs (maximum and default), shown bytes per body, and bytes of all lines. */
const LIST_LIMIT_MAX = 1000;
export const LIST_LIMIT_USUAL = 100;
const SHOWN_BYTES_MAX = 4096;
export const LIST_TEXT_BYTES_MAX: number = 48 * 1024;

/**
 * Returns the text of a list: the id after which the next page continues (0 at the end), and a line
 * per job.
 */
export function listText(next: number, lines: readonly string[]): string {
  return `---\nnext: ${next}\njobs:${lines.length === 0 ? " []\n" : `\n${lines.join("")}`}`;
}

/** The values of the option `on-duplicate`: what a put does to a waiting job that has its key. */
export const OnDuplicate = { Refuse: 0, Keep: 1, Replace: 2, Escalate: 3, Debounce: 4 } as const;
export type OnDuplicate = (typeof OnDuplicate)[keyof typeof OnDuplicate];
const ON_DUPLICATE_WORDS = ["refuse", "keep", "replace", "escalate", "debounce"] as const;

const limit = (max: number, usage: string): OptionRow => ({
  name: "limit",
  tag: OptionTag.Limit,
  kind: OptionKind.Number,
  min: 1,
  max,
  usage,
});

// biome-ignore format: a table
export const PUT_OPTIONS: readonly OptionRow[] = [
  { name: "unique", tag: OptionTag.Unique, kind: OptionKind.Key, usage: "<key>" },
  { name: "unique-for", tag: OptionTag.UniqueFor, kind: OptionKind.Duration, usage: "<duration>" },
  { name: "unique-until", tag: OptionTag.UniqueUntil, kind: OptionKind.Word, words: ["delete", "reserve"], usage: "delete|reserve" },
  { name: "ttl", tag: OptionTag.Ttl, kind: OptionKind.Duration, usage: "<duration>" },
  { name: "group", tag: OptionTag.Group, kind: OptionKind.Key, usage: "<key>" },
  { name: "weight", tag: OptionTag.Weight, kind: OptionKind.Number, min: 1, max: WEIGHT_MAX, usage: "<1..1000>" },
  { name: "cost", tag: OptionTag.Cost, kind: OptionKind.Number, min: 1, max: COST_MAX, usage: "<1..1000>" },
  { name: "on-duplicate", tag: OptionTag.OnDuplicate, kind: OptionKind.Word, words: ON_DUPLICATE_WORDS, usage: ON_DUPLICATE_WORDS.join("|") },
  { name: "meta", tag: OptionTag.Meta, kind: OptionKind.Pair, repeats: true, usage: "<name>:<value>" },
  { name: "debounce-max", tag: OptionTag.DebounceMax, kind: OptionKind.Duration, usage: "<duration>" },
  { name: "batch", tag: OptionTag.Batch, kind: OptionKind.Tube, usage: "<batch>" },
  { name: "after", tag: OptionTag.AfterBatch, kind: OptionKind.Tube, excludes: OptionTag.AfterAny, usage: "<batch>" },
  { name: "after-any", tag: OptionTag.AfterAny, kind: OptionKind.Tube, excludes: OptionTag.AfterBatch, usage: "<batch>" },
];

/** The option of open-batch. */
export const OPEN_OPTIONS: readonly OptionRow[] = [
  { name: "keep", tag: OptionTag.Keep, kind: OptionKind.Duration, usage: "<duration>" },
];

/** Filters that select jobs of a tube. */
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

/** The options of finished-jobs, and of list-batches, whose pages continue from a number. */
export const FINISHED_OPTIONS: readonly OptionRow[] = [
  {
    name: "before",
    tag: OptionTag.Before,
    kind: OptionKind.Number,
    max: Number.MAX_SAFE_INTEGER,
    usage: "<number>",
  },
  limit(LIST_LIMIT_MAX, "<1..1000>"),
];

export const LIST_BATCHES_OPTIONS: readonly OptionRow[] = [
  {
    name: "after",
    tag: OptionTag.After,
    kind: OptionKind.Number,
    max: Number.MAX_SAFE_INTEGER,
    usage: "<number>",
  },
  ...FINISHED_OPTIONS,
];

/** Reserved jobs belong to their holders and can't be moved. */
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

/**
 * The option of release and bury. It may be longer than those of extensions, travels as the body of
 * its message, and is the only thing that these commands accept beyond beanstalkd's arguments. In
 * cancel-job, it is like other options of extensions.
 */
export const REASON_OPTIONS: readonly OptionRow[] = [
  { name: "reason", tag: OptionTag.Reason, kind: OptionKind.Text, usage: "<text>" },
];

/** What touch-job says of a job. */
export const TOUCH_OPTIONS: readonly OptionRow[] = [
  { name: "progress", tag: OptionTag.Progress, kind: OptionKind.Number, max: 100, usage: "<0..100>" },
  { name: "note", tag: OptionTag.Note, kind: OptionKind.Text, mayBeEmpty: true, usage: "<text>" },
];

/** The option of watch, and the only thing that it accepts beyond the tube. */
export const WATCH_OPTIONS: readonly OptionRow[] = [
  {
    name: "weight",
    tag: OptionTag.Weight,
    kind: OptionKind.Number,
    min: 1,
    max: WEIGHT_MAX,
    usage: "<1..1000>",
  },
];

/** The properties that update-job changes. */
export const UPDATE_OPTIONS: readonly OptionRow[] = [
  { name: "pri", tag: OptionTag.Pri, kind: OptionKind.Number, max: U32_MAX, usage: "<pri>" },
  { name: "delay", tag: OptionTag.Delay, kind: OptionKind.Duration, usage: "<delay>" },
  { name: "ttr", tag: OptionTag.Ttr, kind: OptionKind.Number, max: U32_MAX, usage: "<ttr>" },
  { name: "ttl", tag: OptionTag.Ttl, kind: OptionKind.Duration, usage: "<duration>" },
  { name: "tube", tag: OptionTag.Tube, kind: OptionKind.Tube, usage: "<tube>" },
];
