// Descriptions of an extension's options, `name=value`, and the tags under which they travel to a
// shard.

/** Tags of options, 1 to 255. Only threads of one process exchange them. */
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
  MaxAttempts: 48,
  DeadLetter: 49,
  Backoff: 50,
  BackoffMax: 51,
  Expire: 52,
  MaxJobs: 53,
  MaxBytes: 54,
  MaxReserved: 55,
  Rate: 56,
  Burst: 57,
  GroupMaxReserved: 58,
  MaxGroups: 59,
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
export const batchMeta: OptionRow = {
  name: "meta",
  tag: OptionTag.WithMeta,
  kind: OptionKind.Word,
  words: ["yes"],
  usage: "yes",
};
