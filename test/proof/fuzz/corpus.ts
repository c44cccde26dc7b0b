// The kept corpus: one file for each target, an input in base64 on each line.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const fileOf = (name: string): string => fileURLToPath(new URL(`corpus/${name}.txt`, import.meta.url));

export function readCorpus(name: string): Uint8Array[] {
  const path = fileOf(name);
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => Uint8Array.from(Buffer.from(line, "base64")));
}

/** Writes the inputs that show something, each once. */
export function writeCorpus(name: string, inputs: readonly Uint8Array[]): void {
  const lines = new Set(
    inputs.filter(({ length }) => length > 0).map((input) => Buffer.from(input).toString("base64")),
  );
  writeFileSync(fileOf(name), `${[...lines].join("\n")}\n`);
}
