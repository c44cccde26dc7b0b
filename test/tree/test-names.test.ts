// Checks that a reader finds the tests of a file of src/ by its name: `x.test.ts` tests `x.ts`.

import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { basename } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** The others have only types or a few lines, or a test of their caller plays them. */
const SHARE_MIN = 0.8;

it("most files of src have a test with their name", (t) => {
  const tests = new Set(
    globSync("test/**/*.test.ts", { cwd: ROOT }).map((path) => basename(path, ".test.ts")),
  );
  const files = globSync("src/**/*.ts", { cwd: ROOT, exclude: ["**/node_modules/**"] });
  const without = files.filter((path) => !tests.has(basename(path, ".ts"))).sort();
  const found = files.length - without.length;
  t.diagnostic(`${found} of ${files.length} files have a test with their name`);
  const message = `name a test after one of these files, or delete the file:\n${without.join("\n")}`;
  assert.ok(found >= SHARE_MIN * files.length, message);
});
