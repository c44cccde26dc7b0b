// The rooms that are mutated, and the tests that must notice: those that run in process.

import { execFileSync } from "node:child_process";
import { globSync } from "node:fs";
import { ROOT } from "./covered.ts";

/** Patterns of test files by room. */
const TESTS: Readonly<Record<string, readonly string[]>> = {
  engine: ["test/unit/engine/**/*.test.ts", "test/unit/shard/**/*.test.ts"],
  protocol: ["test/unit/protocol/**/*.test.ts", "test/unit/acceptor/**/*.test.ts"],
  ring: ["test/unit/ring/**/*.test.ts", "test/unit/loop/**/*.test.ts", "test/unit/message/**/*.test.ts"],
  binlog: ["test/unit/binlog/**/*.test.ts", "test/binlog/**/*.test.ts"],
  access: ["test/unit/access/**/*.test.ts", "test/unit/config/**/*.test.ts"],
};

export const ROOMS: readonly string[] = Object.keys(TESTS);

export const sourcesOf = (room: string): string[] => globSync(`src/${room}/**/*.ts`, { cwd: ROOT }).sort();

export const testsOf = (room: string): string[] =>
  [...new Set(TESTS[room]!.flatMap((pattern) => globSync(pattern, { cwd: ROOT })))].sort();

/** Lines that differ from a commit, by file; new files as a whole. */
export function changedSince(ref: string): ReadonlyMap<string, (line: number) => boolean> {
  const diff = execFileSync("git", ["diff", "-U0", "--no-color", ref, "--", "src"], {
    cwd: ROOT,
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  const changed = new Map<string, Set<number>>();
  let lines = new Set<number>();
  for (const line of diff.split("\n")) {
    const [, file] = /^\+\+\+ b\/(.+)$/.exec(line) ?? [];
    if (file !== undefined) changed.set(file, (lines = new Set()));
    const [, first, count = "1"] = /^@@ \S+ \+(\d+)(?:,(\d+))? @@/.exec(line) ?? [];
    for (let each = 0; first !== undefined && each < Number(count); each++) lines.add(Number(first) + each);
  }
  return new Map([...changed].map(([file, its]) => [file, (line: number) => its.has(line)]));
}
