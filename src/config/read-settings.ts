// Applies a file, the environment and flags to the options, and reports every fault.

import { parse, TomlError } from "smol-toml";
import { CONFIGURATION_BYTES_MAX } from "./operator-file.ts";
import {
  type FileTable,
  longFlagOf,
  parseDurationMs,
  parseSize,
  type ReadTable,
  type ScalarKind,
  type Setting,
  SettingError,
  variableOf,
} from "./setting.ts";

// Finds the known word closest to an unknown one, for "did you mean".

/** Maximum distance of a suggestion, as a share of the word's letters. */
const DISTANCE_SHARE_MAX = 0.5;

/** Returns the nearest of `words`, or undefined if none is near. */
export function nearestWord(word: string, words: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(word.length * DISTANCE_SHARE_MAX)) + 1;
  for (const each of words) {
    const distance = editDistance(word, each);
    if (distance >= bestDistance) continue;
    bestDistance = distance;
    best = each;
  }
  return best;
}

/** Returns how many letters have to be added, removed or changed. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const changed = row[j - 1]! + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, changed));
    }
    row = next;
  }
  return row[to.length]!;
}

// A TOML file, with the line number of each key.

/** A fault and its line; line 0 means the file as a whole. */
export interface Fault {
  readonly line: number;
  readonly message: string;
}

/** A position in the file: names of tables and keys, and indexes into arrays of tables. */
export type Path = readonly (string | number)[];

export class TomlSource {
  readonly table: FileTable;
  readonly #text: string;
  #lines: Map<string, number> | undefined;

  private constructor(text: string, table: FileTable) {
    this.#text = text;
    this.table = table;
  }

  /** Returns the file, or its first syntax error, where the parser stops. */
  static read(text: string): TomlSource | Fault {
    if (Buffer.byteLength(text) > CONFIGURATION_BYTES_MAX)
      return { line: 0, message: `is larger than ${CONFIGURATION_BYTES_MAX} bytes` };
    try {
      return new TomlSource(text, parse(text));
    } catch (error) {
      if (!(error instanceof TomlError)) throw error;
      const message = error.message.split("\n")[0]!.replace(/^Invalid TOML document: /, "");
      return { line: error.line, message };
    }
  }

  /** Returns the line of the value at `path`, or of the nearest enclosing one. */
  lineOf(path: Path): number {
    this.#lines ??= linesOf(this.#text);
    for (let length = path.length; length > 0; length--) {
      const line = this.#lines.get(JSON.stringify(path.slice(0, length)));
      if (line !== undefined) return line;
    }
    return 0;
  }
}

/**
 * Maps each path to its line, which the parser doesn't report. A key's line follows from the
 * shortest prefix of the file whose parse contains the key. A value of several lines begins after
 * the last prefix that parses.
 */
function linesOf(text: string): Map<string, number> {
  const found = new Map<string, number>();
  const lines = text.split("\n");
  let begin = 0;
  for (let end = 1; end <= lines.length; end++) {
    let table: FileTable;
    try {
      table = parse(lines.slice(0, end).join("\n"));
    } catch {
      continue;
    }
    while (begin < end - 1 && /^\s*(?:#.*)?$/.test(lines[begin]!)) begin++;
    note(table, [], begin + 1, found);
    begin = end;
  }
  return found;
}

function note(value: unknown, path: Path, line: number, found: Map<string, number>): void {
  const key = JSON.stringify(path);
  if (!found.has(key)) found.set(key, line);
  if (typeof value !== "object" || value === null || value instanceof Date) return;
  const entries = Array.isArray(value) ? value.entries() : Object.entries(value);
  for (const [name, each] of entries) note(each, [...path, name], line, found);
}

const EXPECTED: Readonly<Record<ScalarKind, string>> = {
  text: "a string in quotes",
  number: "a whole number, at least 0",
  port: "a port or a string in quotes",
  size: 'a size such as 65536, "64K" or "8G"',
  milliseconds: 'a time such as "250ms" or "30s"; a bare number is in milliseconds',
  seconds: 'a time such as "30s" or "10m"; a bare number is in seconds',
};

/** The file's types for each kind. Only numbers have no quotes. */
const TYPES: Readonly<Record<ScalarKind, readonly string[]>> = {
  text: ["string"],
  number: ["number"],
  port: ["number", "string"],
  size: ["number", "string"],
  milliseconds: ["number", "string"],
  seconds: ["number", "string"],
};

const notExpected = (kind: ScalarKind, value: unknown): SettingError =>
  new SettingError(`${said(value)} is not ${EXPECTED[kind]}`);

/**
 * Converts a value to the form that the setting takes: bytes, milliseconds, or the text itself.
 * Throws SettingError.
 */
type ReadScalar = (kind: ScalarKind, value: unknown) => string;

/** Converts a value of a file, whose type matters. */
const fileScalar: ReadScalar = (kind, value) => {
  if (!TYPES[kind].includes(typeof value)) throw notExpected(kind, value);
  if (kind === "port" && typeof value === "number") return scalarText("number", value);
  return scalarText(kind, value);
};

/** Converts a value of the environment or of a flag, which is always a string. */
const scalarText: ReadScalar = (kind, value) => {
  const text = `${value}`;
  if (kind === "text" || kind === "port") return text;
  if (kind === "number") {
    if (!/^\d+$/.test(text)) throw notExpected(kind, value);
    return text;
  }
  const number = kind === "size" ? parseSize(text) : parseDurationMs(text, kind === "seconds" ? "s" : "ms");
  if (number === undefined) throw notExpected(kind, value);
  return `${number}`;
};

function said(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  // TOML has infinity; JSON doesn't.
  return (typeof value === "number" ? undefined : JSON.stringify(value)) ?? String(value);
}

function listOf(value: unknown): string[] {
  if (!Array.isArray(value)) throw new SettingError(`${said(value)} is not a list of strings: ["…", "…"]`);
  return value.map((each) => fileScalar("text", each));
}

function mapOf(value: unknown): Record<string, string> {
  if (!isTable(value)) throw new SettingError(`${said(value)} is not a table of strings`);
  const entries = Object.entries(value).map(([name, each]) => [name, fileScalar("text", each)]);
  return Object.fromEntries(entries) as Record<string, string>;
}

/** Applies a value that is not a table; throws SettingError. */
function applyValue<O>(setting: Setting<O>, options: O, value: unknown, read: ReadScalar): void {
  switch (setting.kind) {
    case "tables":
      throw new SettingError(`${said(value)} is not a table: start it with [[${setting.key}]]`);
    case "switch":
      if (typeof value !== "boolean") throw new SettingError(`${said(value)} is neither true nor false`);
      setting.set(options, value);
      break;
    case "counter":
      setting.set(options, Number(read("number", value)));
      break;
    case "list":
      setting.set(options, listOf(value));
      break;
    case "map":
      setting.set(options, mapOf(value));
      break;
    default:
      setting.apply(options, read(setting.kind, value));
  }
}

/** Applies the value of a flag; throws SettingError. Switches and counters take no value. */
export function applyFlag<O>(setting: Setting<O>, options: O, text: string, timesBefore: number): void {
  if (setting.kind === "switch") setting.set(options, true);
  else if (setting.kind === "counter") setting.set(options, timesBefore + 1);
  else if (setting.kind === "list") setting.set(options, splitList(text));
  else if (setting.kind !== "map" && setting.kind !== "tables") {
    setting.apply(options, setting.plainFlag === true ? text : ofFlag(setting, text));
  }
}

function ofFlag<O>(setting: Setting<O> & { kind: ScalarKind }, text: string): string {
  try {
    return scalarText(setting.kind, text);
  } catch (error) {
    if (error instanceof SettingError) throw new SettingError(`${longFlagOf(setting)}: ${error.message}`);
    throw error;
  }
}

const splitList = (text: string): string[] =>
  text.split(",").flatMap((each) => (each.trim() === "" ? [] : [each.trim()]));

// --- the file ---------------------------------------------------------------------------------

const isTable = (value: unknown): value is FileTable =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);

/**
 * Applies a file. Returns its faults in the order of lines; calls `onApplied` for each key with its
 * line.
 */
export function applyFile<O>(
  rows: readonly Setting<O>[],
  options: O,
  source: TomlSource,
  onApplied: (key: string, line: number) => void,
): Fault[] {
  const faults: Fault[] = [];
  new FileReader(source, faults, new Set(rows.map(({ key }) => key))).table(
    rows,
    options,
    source.table,
    [],
    onApplied,
  );
  return faults.sort((a, b) => a.line - b.line);
}

class FileReader {
  readonly #source: TomlSource;
  readonly #faults: Fault[];
  /** Those of the file itself, outside its tables. */
  readonly #keys: ReadonlySet<string>;

  constructor(source: TomlSource, faults: Fault[], keys: ReadonlySet<string>) {
    this.#source = source;
    this.#faults = faults;
    this.#keys = keys;
  }

  /** Applies the entries of the table at `path` in the file. */
  table<O>(
    rows: readonly Setting<O>[],
    options: O,
    table: FileTable,
    path: Path,
    onApplied: (key: string, line: number) => void,
  ): void {
    for (const [key, value, at] of this.#entries(rows, table, path, "")) {
      const row = rows.find((each) => each.key === key);
      if (row === undefined) {
        this.#unknown(rows, key, value, at);
        continue;
      }
      this.#try(at, key, () => {
        if (row.kind === "tables") this.#tables(row, options, value, at);
        else applyValue(row, options, value, fileScalar);
        onApplied(key, this.#source.lineOf(at));
      });
    }
  }

  /**
   * Yields keys prefixed with their tables: "http.listen". A table without a row is a single entry.
   */
  *#entries<O>(
    rows: readonly Setting<O>[],
    table: FileTable,
    path: Path,
    prefix: string,
  ): Generator<[key: string, value: unknown, at: Path]> {
    for (const [name, value] of Object.entries(table)) {
      const key = `${prefix}${name}`;
      const at = [...path, name];
      const isSection = rows.some((row) => row.key.startsWith(`${key}.`));
      if (isSection && isTable(value)) yield* this.#entries(rows, value, at, `${key}.`);
      else yield [key, value, at];
    }
  }

  #tables<O>(row: Setting<O> & { kind: "tables" }, options: O, value: unknown, at: Path): void {
    const entries = Array.isArray(value) ? value : [value];
    const tables: FileTable[] = [];
    const paths: Path[] = [];
    entries.forEach((entry, index) => {
      if (isTable(entry)) {
        tables.push(entry);
        paths.push(Array.isArray(value) ? [...at, index] : at);
      } else applyValue(row, options, entry, fileScalar);
    });
    const read: ReadTable = (rows, required, target, table) => {
      const path = paths[tables.indexOf(table)] ?? at;
      const given = new Set<string>();
      this.table(rows, target, table, path, (key) => void given.add(key));
      for (const key of required) {
        if (!given.has(key) && !(key in table)) this.#fault(path, `[[${row.key}]] needs ${key}`);
      }
    };
    row.apply(options, tables, read);
  }

  #unknown<O>(rows: readonly Setting<O>[], key: string, value: unknown, at: Path): void {
    const inner = rows.find((row) => row.key.startsWith(`${key}.`));
    if (inner !== undefined) {
      this.#fault(at, `${key}: ${said(value)} is not a table: write ${inner.key} = …`);
      return;
    }
    const name = key.replace(/^.*\./, "");
    const nearest = nearestWord(
      key,
      rows.map((row) => row.key),
    );
    // In a file with tables, a line at the end belongs to the last one.
    if (at.length > 1 && this.#keys.has(name) && (nearest ?? name) === name) {
      this.#fault(at, `unknown key ${key}: ${name} belongs above the first line with [...]`);
      return;
    }
    this.#fault(at, `unknown key ${key}${nearest === undefined ? "" : `: did you mean ${nearest}?`}`);
  }

  #try(at: Path, key: string, apply: () => void): void {
    try {
      apply();
    } catch (error) {
      if (!(error instanceof SettingError)) throw error;
      this.#fault(at, `${key}: ${error.message}`);
    }
  }

  #fault(at: Path, message: string): void {
    this.#faults.push({ line: this.#source.lineOf(at), message });
  }
}

// --- the environment --------------------------------------------------------------------------

/** Variables that Kubernetes sets in a container for a service named "runnerbean". */
const KUBERNETES = /^RUNNERBEAN_(?:SERVICE_|PORT_\d+_)/;

const isOurs = (name: string): boolean => name.startsWith("RUNNERBEAN_") && !KUBERNETES.test(name);

/**
 * Applies the variables. Throws SettingError for a bad value; reports unknown variables to
 * `notice`.
 */
export function applyEnvironment<O>(
  rows: readonly Setting<O>[],
  options: O,
  environment: Readonly<Record<string, string | undefined>>,
  others: readonly string[],
  { onApplied, notice }: { onApplied: (key: string) => void; notice: (text: string) => void },
): void {
  const byVariable = new Map(rows.flatMap((row) => (takesText(row) ? [[variableOf(row.key), row]] : [])));
  for (const [name, value] of Object.entries(environment).sort()) {
    if (value === undefined || others.includes(name) || !isOurs(name)) continue;
    const row = byVariable.get(name);
    if (row === undefined) {
      const nearest = nearestWord(name, byVariable.keys());
      notice(`unknown variable ${name}${nearest === undefined ? "" : `: did you mean ${nearest}?`}`);
    } else if (name === "RUNNERBEAN_PORT" && /^tcp:\/\//.test(value)) {
      notice(`ignoring ${name}=${value}, which Kubernetes sets for a service of that name`);
    } else if (applyVariable(row, options, name, value)) onApplied(row.key);
  }
}

/** Only the file can set maps and tables. */
const takesText = <O>(row: Setting<O>): boolean => row.kind !== "map" && row.kind !== "tables";

/** Returns whether the variable counts: containers pass on one that isn't set as an empty one. */
function applyVariable<O>(row: Setting<O>, options: O, name: string, value: string): boolean {
  if (value === "" && row.kind !== "switch") return false;
  try {
    if (row.kind === "switch") row.set(options, switchOf(value));
    else applyValue(row, options, row.kind === "list" ? splitList(value) : value, scalarText);
    return true;
  } catch (error) {
    if (error instanceof SettingError) throw new SettingError(`${name}: ${error.message}`);
    throw error;
  }
}

function switchOf(text: string): boolean {
  if (/^(?:1|true|yes|on)$/i.test(text)) return true;
  if (/^(?:0|false|no|off|)$/i.test(text)) return false;
  throw new SettingError(`${said(text)} is neither true nor false`);
}

export function flagsOf<O>(rows: readonly Setting<O>[]): string[] {
  return rows.flatMap((row) => ("flags" in row ? (longFlagOf(row) ?? []) : []));
}
