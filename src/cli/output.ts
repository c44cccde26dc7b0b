// Output of results: for people on a terminal, for programs in a pipe, and as JSON.

export type Cell = string | number | boolean | null | undefined;
export type Row = Readonly<Record<string, Cell>>;

export interface OutputOptions {
  readonly json?: boolean;
}

/** Escapes control characters in names and bodies, so that the terminal does not interpret them. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: it looks for them
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (char) => {
    return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

const textOf = (cell: Cell): string => (cell === null || cell === undefined ? "-" : printable(`${cell}`));

/** Does the same for text of several lines. */
export const printableLines = (text: string): string => text.split("\n").map(printable).join("\n");

/** Returns a table of the rows, with these columns. */
export function rowsText(rows: readonly Row[], columns: readonly string[], forPeople: boolean): string {
  const lines = [columns, ...rows.map((row) => columns.map((column) => textOf(row[column])))];
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

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Prints messages other than results, on stderr. */
export function tell(line: string): void {
  process.stderr.write(`${printableLines(line)}\n`);
}
