// Tests of the tables of files: each name is that of one file, and of one kind only.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { ALONE, AT_NIGHT, isOneOf, LONGEST, ONCE_MORE, processesFor, WAITING, WHOLE_ONLY } from "./files.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const all = globSync(["test/**/*.test.ts", "bench/**/*.test.ts"], { cwd: root });
const wholeOnly = Object.values(WHOLE_ONLY).flat();

it("each name is that of one file, once in its table", () => {
  for (const table of [ALONE, LONGEST, ONCE_MORE, WAITING.flat(), wholeOnly]) {
    assert.equal(new Set(table).size, table.length);
    for (const name of table) assert.equal(all.filter((file) => isOneOf([name], file)).length, 1, name);
  }
});

it("nights play the files that leave something to them", () => {
  const leaving = all.filter((file) =>
    /^import .*\b(?:atNight|IS_NIGHT|SKIP_UNTIL_NIGHT)\b/m.test(readFileSync(`${root}${file}`, "utf8")),
  );
  assert.deepEqual(
    AT_NIGHT.map((name) => `test/${name}.test.ts`),
    leaving.sort(),
  );
});

it("rooms share processes, without the files that have their own", () => {
  const shared = processesFor(all).filter(({ length }) => length > 1);
  assert.ok(shared.length > 10);
  for (const file of shared.flat()) assert.ok(!isOneOf(ALONE, file), file);
});
