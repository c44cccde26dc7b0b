// A TOML file, with the line number of each key.

import { parse, TomlError } from "smol-toml";
import { CONFIGURATION_BYTES_MAX } from "./operator-file.ts";
import type { FileTable } from "./setting.ts";

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
