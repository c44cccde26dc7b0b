// Writes settings as a file: the current values, or an example of all settings.

import { stringify } from "smol-toml";
import { type FileTable, longFlagOf, type Setting, variableOf } from "./setting.ts";

/**
 * Returns the current settings as a file. `sources` maps each key to the origin of its value; a
 * missing key has its default.
 */
export function printSettings<O>(
  rows: readonly Setting<O>[],
  options: O,
  sources: ReadonlyMap<string, string>,
): string {
  return inSections(rows, (row, name) => {
    const from = sources.get(row.key) ?? "default";
    const value = row.show(options);
    if (row.kind === "tables") {
      const tables = value as readonly FileTable[];
      return tables.length === 0
        ? ""
        : `# from ${from}\n${tables.map((table) => `[[${row.key}]]\n${entriesText(table)}`).join("\n")}`;
    }
    if (value === undefined) return `# ${name} is not set\n`;
    return `${assignment(name, value)}  # ${from}\n`;
  });
}

/**
 * Returns every key with its meaning, all as comments, so that the file changes nothing until a
 * line is uncommented.
 */
export function exampleSettings<O>(rows: readonly Setting<O>[], defaults: O): string {
  const intro = "# Every key is optional. Sizes: 64K, 8G; times: 250ms, 30s, 10m.\n";
  return `${intro}\n${inSections(rows, (row, name) => {
    if (row.kind === "tables") return exampleTables(row);
    const value = row.show(defaults);
    return `${about(row)}# ${assignment(name, value ?? exampleValue(row))}\n\n`;
  })}`;
}

/** Returns "# text [flag, variable]", and whether SIGHUP applies a change. */
function about<O>(row: Setting<O>): string {
  const flag = "flags" in row ? longFlagOf(row) : undefined;
  const takesVariable = row.kind !== "map" && row.kind !== "tables";
  const ways = [...(flag === undefined ? [] : [flag]), ...(takesVariable ? [variableOf(row.key)] : [])];
  const reload = row.reloads === true ? "; SIGHUP is enough after a change" : "";
  return `# ${row.text}${ways.length === 0 ? "" : ` [${ways.join(", ")}]`}${reload}\n`;
}

function exampleTables<O>(row: Setting<O> & { kind: "tables" }): string {
  const lines = row.rows.map((inner) => {
    if (inner.example === undefined) return `#   ${inner.key}: ${inner.text}\n`;
    return `# ${assignment(inner.key, inner.example)}  # ${inner.text}\n`;
  });
  return `${about(row)}# [[${row.key}]]\n${lines.join("")}\n`;
}

function exampleValue<O>(row: Setting<O>): unknown {
  if (row.example !== undefined) return row.example;
  if (row.kind === "list") return [];
  if (row.kind === "map") return {};
  if (row.kind === "switch") return false;
  return row.kind === "number" || row.kind === "counter" ? 0 : "";
}

/** Tables within are inline: a heading of their own would have to name the tables around them. */
const entriesText = (table: FileTable): string =>
  Object.entries(table)
    .map(([name, value]) => `${assignment(name, value)}\n`)
    .join("");

function assignment(name: string, value: unknown): string {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const entries = Object.entries(value).map(([key, each]) => assignment(keyText(key), each));
    return `${name} = { ${entries.join(", ")} }`;
  }
  return stringify({ value })
    .trim()
    .replace(/^value/, name);
}

const keyText = (key: string): string => (/^[\w-]+$/.test(key) ? key : JSON.stringify(key));

/**
 * Writes rows without a section first, then each section under its heading (deeper keys as
 * "tls.cert"), then tables.
 */
function inSections<O>(
  rows: readonly Setting<O>[],
  write: (row: Setting<O>, name: string) => string,
): string {
  const sectionOf = ({ key }: Setting<O>): string => key.slice(0, Math.max(0, key.indexOf(".")));
  const plain = rows.filter((row) => row.kind !== "tables");
  const sections = [...new Set(plain.map(sectionOf))].sort((a, b) => Number(a !== "") - Number(b !== ""));
  const text = sections.map((section) => {
    const lines = plain.filter((row) => sectionOf(row) === section);
    const head = section === "" ? "" : `\n[${section}]\n`;
    return (
      head + lines.map((row) => write(row, row.key.slice(section === "" ? 0 : section.length + 1))).join("")
    );
  });
  const tables = rows.filter((row) => row.kind === "tables").map((row) => write(row, row.key));
  return [...text, ...tables.map((each) => (each === "" ? "" : `\n${each}`))].join("");
}
