// The table of ends in docs/commands.md is the one that the engine uses.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { it } from "node:test";
import { ENDS, type End } from "../../../../src/engine/jobs/ends.ts";
import { CAUSE_WORDS } from "../../../../src/protocol/job-failure.ts";

const HEAD = "| what ends | attempt | backoff | failure | unique key | member |\n|---|---|---|---|---|---|\n";

function rowOf({ what, isAttempt, backsOff, failure, key, member }: End): string {
  const words = [isAttempt, backsOff].map((is) => (is ? "yes" : "no"));
  const cause = failure === undefined ? "none" : CAUSE_WORDS[failure];
  return `| ${[what, ...words, cause, key, member].join(" | ")} |\n`;
}

it("docs/commands.md has the rows of ENDS", () => {
  const page = readFileSync(new URL("../../../../docs/commands.md", import.meta.url), "utf8");
  const table = page.slice(page.indexOf(HEAD), page.indexOf("\n\n", page.indexOf(HEAD)) + 1);
  assert.equal(table, HEAD + Object.values(ENDS).map(rowOf).join(""));
});
