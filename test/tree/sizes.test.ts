// Sizes of rooms and files: at most 25 files in a folder and 450 lines in a file.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const FILES_MAX = 25;
const LINES_MAX = 450;

/** Folders that may be larger, each with the reason. */
const LARGE_FOLDERS: Readonly<Record<string, string>> = {
  "src/shard/commands": "one file for each command",
  "test/transcripts": "one conversation in each file, found by name",
};

/** Returns the folders that hold too many files, with their number. */
function largeFolders(files: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const file of files) counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1);
  return [...counts]
    .filter(([folder, count]) => count > FILES_MAX && !Object.hasOwn(LARGE_FOLDERS, folder))
    .map(([folder, count]) => `${folder}: ${count} files`);
}

/** Returns what is wrong with the length of a file, if anything. */
function tooLong(file: string, lines: number): string | undefined {
  return lines > LINES_MAX ? `${file}: ${lines} lines, at most ${LINES_MAX}` : undefined;
}

const linesOf = (file: string): number => readFileSync(join(ROOT, file), "utf8").split("\n").length - 1;

describe("sizes", () => {
  it("no folder holds more than 25 files", () => {
    const files = globSync("{src,test,bench}/**/*.*", { cwd: ROOT });
    assert.ok(files.length > 1000, `${files.length} files`);
    assert.deepEqual(largeFolders(files), []);
  });

  it("no file is longer than 450 lines", () => {
    const files = globSync("{src,test,bench}/**/*.ts", { cwd: ROOT });
    assert.ok(files.length > 1000, `${files.length} files`);
    assert.deepEqual(
      files.map((file) => tooLong(file, linesOf(file))).filter((wrong) => wrong !== undefined),
      [],
    );
  });

  it("finds a folder and a file above the limit", () => {
    const files = Array.from({ length: 26 }, (_, index) => `src/a/${index}.ts`);
    assert.deepEqual(largeFolders(files), ["src/a: 26 files"]);
    assert.deepEqual(largeFolders(files.slice(1)), []);
    assert.equal(tooLong("src/a/a.ts", 450), undefined);
    assert.equal(tooLong("src/a/a.ts", 451), "src/a/a.ts: 451 lines, at most 450");
    assert.ok(tooLong("src/server/server.ts", 10_000));
  });
});
