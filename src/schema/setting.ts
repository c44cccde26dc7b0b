// What can be set for tubes: one row per setting. From the rows follow set-tube and inspect-tube,
// the lines of `--tubes FILE`, the text in the log, the values in the engine, the HTTP API with its
// schemas, the client's types, the help of the command line and the dashboard's dialog.
//
// A new setting is a row here, and the place in the engine that obeys it.

import { wordOf } from "./names.ts";

type SettingKind = "number" | "bytes" | "duration" | "tube" | "word" | "rate";

interface SettingRow {
  /** A duration is in ms in the engine, elsewhere in seconds. */
  readonly kind: SettingKind;
  /** Minimum of a number; 0 if omitted. */
  readonly min?: number;
  /** Maximum of a number; that of 32 bits if omitted. */
  readonly max?: number;
  /** The words, each with what the dashboard calls it. */
  readonly words?: Readonly<Record<string, string>>;
  /** The value where nothing is set. */
  readonly unset: number | string;
  /** How the dashboard names it, and what it says about it. */
  readonly label: string;
  readonly hint: string;
}
interface RowOf<Kind extends SettingKind, Word extends string = never> extends SettingRow {
  readonly kind: Kind;
  readonly words?: Readonly<Record<Word, string>>;
}
/** Returns a row whose type has only what others derive. */
const row = <Kind extends SettingKind, Word extends string = never>(
  kind: Kind,
  rest: Omit<RowOf<Kind, Word>, "kind">,
): RowOf<Kind, Word> => ({ kind, ...rest });

const { POSITIVE_INFINITY: UNLIMITED } = Number;
const GROUPS_MAX = 100_000;
/** Ends of jobs that a tube keeps at most. */
const FINISHED_MAX = 10_000;

// biome-ignore format: a table
const ROWS = {
  maxAttempts: row("number", { min: 1, unset: 0, label: "attempts at most", hint: "a job that fails that often is dead" }),
  deadLetter: row("tube", { unset: "", label: "dead jobs go to", hint: "a tube; buried here if empty" }),
  backoff: row("duration", { unset: 0, label: "first backoff", hint: "doubles with each failure" }),
  backoffMax: row("duration", { unset: UNLIMITED, label: "longest backoff", hint: "" }),
  ttl: row("duration", { unset: 0, label: "time to live", hint: "a job that waits longer expires" }),
  expire: row("word", { words: { delete: "deleted", bury: "buried" }, unset: "delete", label: "expired jobs are", hint: "" }),
  maxJobs: row("number", { unset: UNLIMITED, label: "jobs at most", hint: "further puts are refused" }),
  maxBytes: row("bytes", { unset: UNLIMITED, label: "bytes at most", hint: "further puts are refused" }),
  maxReserved: row("number", { min: 1, unset: UNLIMITED, label: "reserved at most", hint: "at the same time" }),
  // Reservations per seconds, and how many at once after a quiet time.
  rate: row("rate", { unset: "", label: "rate", hint: "such as 10/1" }),
  burst: row("number", { min: 1, unset: 1, label: "burst", hint: "jobs at once, after a quiet time" }),
  groupMaxReserved: row("number", { min: 1, unset: UNLIMITED, label: "reserved in a group", hint: "at the same time" }),
  groupRate: row("rate", { unset: "", label: "rate of a group", hint: "such as 10/1" }),
  groupBurst: row("number", { min: 1, unset: 1, label: "burst of a group", hint: "jobs at once, after a quiet time" }),
  maxGroups: row("number", { unset: GROUPS_MAX, label: "groups at most", hint: "" }),
  keepFinished: row("number", { max: FINISHED_MAX, unset: 0, label: "finished jobs to keep", hint: "the last ones, in memory" }),
  paused: row("word", { words: { no: "no", yes: "yes" }, unset: "no", label: "paused", hint: "until it is set again, restarts included" }),
};

type Rows = typeof ROWS;
/** The name in JSON. */
type JsonName = keyof Rows;

/** The name in the engine. */
type FieldOf<Name extends JsonName> = Rows[Name]["kind"] extends "duration" ? `${Name}Ms` : Name;
type ValueOf<Row extends SettingRow> = Row extends { kind: "number" | "bytes" | "duration" }
  ? number
  : Row extends RowOf<"word", infer Word>
    ? Word
    : string;
/** The settings in the engine; durations in ms. */
export type SettingValues = { -readonly [Name in JsonName as FieldOf<Name>]: ValueOf<Rows[Name]> };
export type SettingName = keyof SettingValues;

/** Changes in JSON: omitted settings stay as they are; null removes one. Durations in seconds. */
export type SettingChanges = {
  readonly [Name in JsonName]?:
    | (Rows[Name]["kind"] extends "rate" ? `${number}/${number}` : ValueOf<Rows[Name]>)
    | null;
};

/** A setting with all its names. */
export interface Setting extends SettingRow {
  /** Tag of the option on its way to a shard (protocol/option-rows.ts). */
  readonly tag: number;
  /** In JSON: "backoffMax". */
  readonly name: JsonName;
  /** On the wire: "backoff-max". */
  readonly word: string;
  /** In the engine: "backoffMaxMs". */
  readonly field: SettingName;
}

/** The first of the tags, which only threads of one process exchange. */
const FIRST_TAG = 48;

/** All settings, in the order in which they are listed. */
export const SETTINGS: readonly Setting[] = (Object.keys(ROWS) as JsonName[]).map((name, index) => ({
  ...ROWS[name],
  tag: FIRST_TAG + index,
  name,
  word: wordOf(name),
  field: (ROWS[name].kind === "duration" ? `${name}Ms` : name) as SettingName,
}));

/** The values without any setting. */
export const NOTHING_SET: Readonly<SettingValues> = Object.fromEntries(
  SETTINGS.map(({ field, unset }) => [field, unset]),
) as Readonly<SettingValues>;
