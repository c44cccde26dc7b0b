// Mutants that no test can kill, each with the reason.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./covered.ts";
import type { Mutant } from "./mutants.ts";

interface Kept {
  /** Below src. */
  readonly file: string;
  /** The line without the blanks around it. */
  readonly code: string;
  /** As `Mutant.what`, of all mutants with this reason. */
  readonly what: readonly string[];
  readonly why: string;
}

export const KEPT: readonly Kept[] = [];

/** The line of a mutant without the blanks around it. */
export function codeOf({ file, line }: Mutant): string {
  const path = join(ROOT, file);
  return existsSync(path) ? (readFileSync(path, "utf8").split("\n")[line - 1]?.trim() ?? "") : "";
}

export function keptReason(mutant: Mutant): string | undefined {
  const code = codeOf(mutant);
  return KEPT.find(
    (each) => `src/${each.file}` === mutant.file && each.code === code && each.what.includes(mutant.what),
  )?.why;
}
