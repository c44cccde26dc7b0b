// What can be set: a row says its key, its flag, what it takes and what it does. Flags, variables, the
// file, `config print` and `config example` all read the same rows.

/** A value that cannot be taken; the message names it and what may stand there. */
export class SettingError extends Error {}

interface Described<O> {
  /** Where it stands in the file: "max-memory", or "http.listen" for `listen` in `[http]`. */
  readonly key: string;
  /** What it is, in a line. */
  readonly text: string;
  /** A change of it counts after SIGHUP; all others need a restart. */
  readonly reloads?: true;
  /** Names what of it, changed in the file, needs a restart all the same. */
  restartPart?(options: O): string;
  /** What `config example` shows where there is no default. */
  readonly example?: unknown;
}

/** What a text stands for; sizes and times may have units. A port may be part of a text, "127.0.0.1:11380". */
export type ScalarKind = "text" | "number" | "decimal" | "port" | "size" | "milliseconds" | "seconds";

export interface ScalarSetting<O> extends Described<O> {
  readonly kind: ScalarKind;
  /** As commander reads it: "-b, --binlog <dir>". */
  readonly flags?: string;
  /** What stands behind the flag is taken as it is: beanstalkd's take digits only, others tell what is wrong themselves. */
  readonly plainFlag?: true;
  /** A size in bytes and a time in ms, both as digits; anything else as it was written. Throws SettingError. */
  apply(options: O, value: string): void;
  /** What counts, as it would be written in the file; undefined for nothing. */
  show(options: O): string | number | undefined;
}

export interface SwitchSetting<O> extends Described<O> {
  readonly kind: "switch";
  readonly flags?: string;
  set(options: O, on: boolean): void;
  show(options: O): boolean | undefined;
}

/** Counted by the flag ("-VV"), a number in the file. */
export interface CounterSetting<O> extends Described<O> {
  readonly kind: "counter";
  readonly flags?: string;
  set(options: O, count: number): void;
  show(options: O): number | undefined;
}

/** Several texts: an array in the file; with commas between them in a variable and behind the flag. */
export interface ListSetting<O> extends Described<O> {
  readonly kind: "list";
  readonly flags?: string;
  set(options: O, values: readonly string[]): void;
  show(options: O): readonly string[] | undefined;
}

/** Texts by names that the operator chooses. */
export interface MapSetting<O> extends Described<O> {
  readonly kind: "map";
  set(options: O, entries: Readonly<Record<string, string>>): void;
  show(options: O): Readonly<Record<string, string>> | undefined;
}

/** A table of the file, as the parser made it. */
export type FileTable = Readonly<Record<string, unknown>>;

/** Reads a table by rows of its own into `target`; `required` keys have to be there. Faults are noted. */
export type ReadTable = <E>(
  rows: readonly Setting<E>[],
  required: readonly string[],
  target: E,
  table: FileTable,
) => void;

/** Tables of a kind, `[[listener]]`, with rows of their own. */
export interface TablesSetting<O> extends Described<O> {
  readonly kind: "tables";
  /** For `config example`. */
  readonly rows: readonly Setting<never>[];
  apply(options: O, tables: readonly FileTable[], read: ReadTable): void;
  show(options: O): readonly FileTable[];
}

export type Setting<O> =
  | ScalarSetting<O>
  | SwitchSetting<O>
  | CounterSetting<O>
  | ListSetting<O>
  | MapSetting<O>
  | TablesSetting<O>;

/** The variable of a setting: RUNNERBEAN_MAX_MEMORY, RUNNERBEAN_HTTP_LISTEN. */
export function variableOf(key: string): string {
  return `RUNNERBEAN_${key.replace(/[.-]/g, "_").toUpperCase()}`;
}

/** The long flag of a setting: "--max-memory". */
export function longFlagOf(setting: { readonly flags?: string }): string | undefined {
  return /--[\w-]+/.exec(setting.flags ?? "")?.[0];
}
