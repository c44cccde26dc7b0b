// Descriptions of settings: each row has a key, a flag, a kind and an effect. Flags, variables, the
// file, `config print` and `config example` share the rows.

// Sizes like "64M" and times like "30s", for files, variables and the flags that beanstalkd lacks.

const SIZE_UNITS: Readonly<Record<string, number>> = {
  "": 1,
  K: 2 ** 10,
  M: 2 ** 20,
  G: 2 ** 30,
  T: 2 ** 40,
};
const MS_UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Returns the bytes of "4096", "64K", "8G" or "8GiB"; units are powers of 1024. Returns undefined
 * for other texts.
 */
export function parseSize(text: string): number | undefined {
  const [, digits, unit] = /^(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?$/i.exec(text.trim()) ?? [];
  if (digits === undefined) return undefined;
  const bytes = Number(digits) * SIZE_UNITS[unit!.toUpperCase()]!;
  return Number.isSafeInteger(Math.round(bytes)) ? Math.round(bytes) : undefined;
}

/** Of a millisecond: what binary fractions lose. */
const ROUNDING_MAX = 1e-3;

/**
 * Returns the milliseconds of "250ms", "30s", "10m", "12h" or "7d"; a bare number is in `bareUnit`.
 * Returns undefined for other texts, and for parts of a millisecond: rounded to 0, they would mean
 * something else.
 */
export function parseDurationMs(text: string, bareUnit: "ms" | "s"): number | undefined {
  const [, digits, unit] = /^(\d+(?:\.\d+)?) ?(ms|s|m|h|d)?$/.exec(text.trim()) ?? [];
  if (digits === undefined) return undefined;
  const ms = Number(digits) * MS_UNITS[unit ?? bareUnit]!;
  const whole = Math.round(ms);
  return Number.isSafeInteger(whole) && Math.abs(ms - whole) < ROUNDING_MAX ? whole : undefined;
}

/**
 * Returns the value of a tube's setting as set-tube takes it: seconds, bytes, and "100/60" for
 * "100/1m". Other texts stay as they are, and the parser of set-tube refuses them.
 */
export function withoutUnits(kind: string, text: string): string {
  const seconds = (time: string): string => {
    const ms = parseDurationMs(time, "s");
    return ms === undefined ? time : `${ms / 1000}`;
  };
  if (kind === "duration") return seconds(text);
  if (kind === "bytes") return `${parseSize(text) ?? text}`;
  return kind === "rate" ? text.replace(/(?<=\/).+$/, seconds) : text;
}

/** Returns "64M" for 67108864: uses the largest unit that divides the number. */
export function sizeText(bytes: number): string {
  for (const unit of ["T", "G", "M", "K"]) {
    const factor = SIZE_UNITS[unit]!;
    if (bytes >= factor && bytes % factor === 0) return `${bytes / factor}${unit}`;
  }
  return `${bytes}`;
}

/** A rejected value; the message names it and says which values are allowed. */
export class SettingError extends Error {}

interface Described<O> {
  /** The key in the file: "max-memory", or "http.listen" for `listen` in `[http]`. */
  readonly key: string;
  /** A one-line description. */
  readonly text: string;
  /** SIGHUP applies a change; all other settings need a restart. */
  readonly reloads?: true;
  /** Returns the part of the setting whose change in the file still needs a restart. */
  restartPart?(options: O): string;
  /** The value in `config example` for a setting without a default. */
  readonly example?: unknown;
}

/**
 * The meaning of a value. Sizes and times may have units. A port may be part of a string:
 * "127.0.0.1:11380".
 */
export type ScalarKind = "text" | "number" | "port" | "size" | "milliseconds" | "seconds";

interface ScalarSetting<O> extends Described<O> {
  readonly kind: ScalarKind;
  /** The flags in commander's syntax: "-b, --binlog <dir>". */
  readonly flags?: string;
  /**
   * Takes the flag's value literally: beanstalkd's flags accept numbers in its form, and others
   * report their own errors.
   */
  readonly plainFlag?: true;
  /**
   * Sets the option. Sizes arrive in bytes and times in ms, both as digits, other values as
   * written. Throws SettingError.
   */
  apply(options: O, value: string): void;
  /** Returns the current value as the file would write it; undefined for none. */
  show(options: O): string | number | undefined;
}

interface SwitchSetting<O> extends Described<O> {
  readonly kind: "switch";
  readonly flags?: string;
  set(options: O, on: boolean): void;
  show(options: O): boolean | undefined;
}

/** A count of repeated flags ("-VV"), and a number in the file. */
interface CounterSetting<O> extends Described<O> {
  readonly kind: "counter";
  readonly flags?: string;
  set(options: O, count: number): void;
  show(options: O): number | undefined;
}

/** A list of strings: an array in the file, separated by commas in a variable or flag. */
interface ListSetting<O> extends Described<O> {
  readonly kind: "list";
  readonly flags?: string;
  set(options: O, values: readonly string[]): void;
  show(options: O): readonly string[] | undefined;
}

/** Strings under names that the operator chooses. */
interface MapSetting<O> extends Described<O> {
  readonly kind: "map";
  set(options: O, entries: Readonly<Record<string, string>>): void;
  show(options: O): Readonly<Record<string, string>> | undefined;
}

/** A table of the file, as the parser returns it. */
export type FileTable = Readonly<Record<string, unknown>>;

/** Reads a table by its own rows into `target`; `required` keys must be present. Records faults. */
export type ReadTable = <E>(
  rows: readonly Setting<E>[],
  required: readonly string[],
  target: E,
  table: FileTable,
) => void;

/** An array of tables such as `[[listener]]`, with rows of its own. */
interface TablesSetting<O> extends Described<O> {
  readonly kind: "tables";
  /** Rows for `config example`. */
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

/** Returns the variable of a setting: RUNNERBEAN_MAX_MEMORY, RUNNERBEAN_HTTP_LISTEN. */
export function variableOf(key: string): string {
  return `RUNNERBEAN_${key.replace(/[.-]/g, "_").toUpperCase()}`;
}

/** Returns the long flag of a setting: "--max-memory". */
export function longFlagOf(setting: { readonly flags?: string }): string | undefined {
  return /--[\w-]+/.exec(setting.flags ?? "")?.[0];
}
