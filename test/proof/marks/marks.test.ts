// Tests of the marks: each stands in src, and a branch that did not run is told from one that did.

import "../../support/checked.ts";
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CodeCoverage } from "../fuzz/code-coverage.ts";
import { MARKS, type Mark } from "./marks.ts";
import { countMarks, placesOf } from "./reached.ts";

const markAt = (code: string): Mark => ({ simulator: "log", what: code, code });

describe("marks", () => {
  it("stand once in src", () => {
    assert.equal(placesOf(MARKS).length, MARKS.length);
    assert.throws(() => placesOf([markAt("no such text")]), /"no such text" stands 0 times in src/);
    assert.throws(() => placesOf([markAt("import ")]), /stands \d+ times in src; correct its text/);
  });

  it("tell what a simulation reached", async () => {
    const reached = markAt("scan.oldest = Math.max(scan.oldest,");
    const notReached = markAt(", which this runnerbean does not know`");
    const coverage = new CodeCoverage();
    const counts = await countMarks(coverage, "log", placesOf([reached, notReached]), [1, 2]);
    coverage.end();
    assert.ok(counts.get(reached)! > 0);
    assert.equal(counts.get(notReached), 0);
  });
});
