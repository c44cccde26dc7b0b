// Reader of the last run's lines in a results file.
import { readFileSync } from "node:fs";
import type { ResultLine } from "./result-line.ts";

export function lastRun(file: string): ResultLine[] {
  const texts = readFileSync(file, "utf8").trim().split("\n");
  const lines = texts.map((text) => JSON.parse(text) as ResultLine);
  return lines.filter(({ run }) => run === lines.at(-1)!.run);
}
