// A file in TOML, and on which line of it each key stands.

import { parse, TomlError } from "smol-toml";
import type { FileTable } from "./setting.ts";

/** Larger ones are none of ours; finding lines takes time by the square of their number. */
const BYTES_MAX = 256 * 1024;

/** What is wrong, and where; a line of 0 is the file as a whole. */
export interface Fault {
  readonly line: number;
  readonly message: string;
}

/** A place in the file: names of tables and keys, and indexes of arrays of tables. */
export type Path = readonly (string | number)[];

export class TomlSource {
  readonly table: FileTable;
  readonly #text: string;
  #lines: Map<string, number> | undefined;

  private constructor(text: string, table: FileTable) {
    this.#text = text;
    this.table = table;
  }

  /** The file, or what is wrong with its syntax: a parser stops at the first fault. */
  static read(text: string): TomlSource | Fault {
    if (text.length > BYTES_MAX) return { line: 0, message: `is larger than ${BYTES_MAX} bytes` };
    try {
      return new TomlSource(text, parse(text));
    } catch (error) {
      if (!(error instanceof TomlError)) throw error;
      const message = error.message.split("\n")[0]!.replace(/^Invalid TOML document: /, "");
      return { line: error.line, message };
    }
  }

  /** The line of what is at `path`, or of the nearest thing around it. */
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
 * The parser does not say where a key stands. But a key is in the file from that line on with which a parse of
 * the beginning first has it; what takes several lines began behind the last line that could be parsed.
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
