// Tables of docs/installing.md, each between two comments.

import { basename } from "node:path";
import type { Artefact } from "./artefacts.ts";
import type { Start } from "./measure.ts";

const megabytes = (bytes: number): string =>
  bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`;

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

export const sizesTable = (artefacts: readonly Artefact[]): string =>
  table(
    ["artefact", "size"],
    artefacts.map(({ file, bytes }) => [`\`${basename(file)}\``, megabytes(bytes)]),
  );

interface Row {
  readonly name: string;
  readonly plain: Start;
  readonly withHttp: Start;
}

export const startsTable = (rows: readonly Row[]): string =>
  table(
    ["", "first reply", "processor time", "resident", "with `--http`"],
    rows.map(({ name, plain, withHttp }) => [
      name,
      seconds(plain.replyMs),
      seconds(plain.processorMs),
      megabytes(plain.residentBytes),
      `${seconds(withHttp.processorMs)}, ${megabytes(withHttp.residentBytes)}`,
    ]),
  );

/** Returns the page with the table between its comments. Throws if they are missing. */
export function withTable(page: string, name: string, rows: string): string {
  const place = new RegExp(`(<!-- ${name}:begin -->\\n)[^]*?(<!-- ${name}:end -->)`);
  if (!place.test(page)) throw new Error(`the page has no place for ${name}: <!-- ${name}:begin -->`);
  return page.replace(place, (_, before: string, after: string) => `${before}${rows}\n${after}`);
}
