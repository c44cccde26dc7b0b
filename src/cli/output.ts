// Output of results: for people on a terminal, for programs in a pipe, and as JSON. Everything that
// is printed goes through here, where control characters are escaped.

import { printable, printableLines } from "../base/text.ts";

// Exit codes of the operator commands.

export const ExitCode = {
  Done: 0,
  /** The object doesn't exist, or no job arrived. */
  Nothing: 1,
  /** Only a part was done. */
  Partly: 2,
  NoConnection: 3,
  NotPermitted: 4,
  BadArguments: 5,
} as const;

/** Error with the operator's message and the exit code. */
export class CommandFailed extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

export type Cell = string | number | boolean | null | undefined;
export type Row = Readonly<Record<string, Cell>>;

export interface OutputOptions {
  readonly json?: boolean;
}

const textOf = (cell: Cell): string => (cell === null || cell === undefined ? "-" : printable(`${cell}`));

export function rowsText(rows: readonly Row[], columns: readonly string[], forPeople: boolean): string {
  const lines = [columns.map(printable), ...rows.map((row) => columns.map((column) => textOf(row[column])))];
  if (!forPeople) return lines.map((cells) => `${cells.join("\t")}\n`).join("");
  const widths = columns.map((_, index) => Math.max(...lines.map((cells) => cells[index]!.length)));
  const isNumber = columns.map((column) => rows.some((row) => typeof row[column] === "number"));
  const pad = (cell: string, index: number): string =>
    isNumber[index] ? cell.padStart(widths[index]!) : cell.padEnd(widths[index]!);
  return lines
    .map((cells, line) => `${emphasis(cells.map(pad).join("  ").trimEnd(), line === 0)}\n`)
    .join("");
}

const emphasis = (text: string, isHead: boolean): string =>
  isHead && hasColour() ? `\u001b[1m${text}\u001b[0m` : text;

const hasColour = (): boolean => process.stdout.isTTY === true && !process.env["NO_COLOR"];

export function printRows(rows: readonly Row[], columns: readonly string[], { json }: OutputOptions): void {
  if (json === true) for (const row of rows) print(JSON.stringify(row));
  else process.stdout.write(rowsText(rows, columns, process.stdout.isTTY === true));
}

/** Prints one object, a line for each of its properties. */
export function printOne(thing: Row, { json }: OutputOptions): void {
  if (json === true) print(JSON.stringify(thing));
  else
    printRows(
      Object.entries(thing).map(([key, value]) => ({ key, value })),
      ["key", "value"],
      {},
    );
}

/** Prints an act and a count: "cleared 5", or {"cleared":5}. */
export function printDone(what: string, count: number, { json }: OutputOptions): void {
  print(json === true ? JSON.stringify({ [what]: count }) : `${what} ${count}`);
}

/** Prints a line, or several. */
export function print(line: string): void {
  process.stdout.write(`${printableLines(line)}\n`);
}

/** Prints messages other than results, on stderr. */
export function tell(line: string): void {
  process.stderr.write(`${printableLines(line)}\n`);
}
