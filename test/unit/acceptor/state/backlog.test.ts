// Tests of an acceptor's backlog of lines: bounded, whatever the main thread does.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Backlog } from "../../../../src/acceptor/acceptor.ts";

it("Backlog has one batch in flight, keeps a bounded number of items and counts the rest", () => {
  const batches: { lines: string[]; dropped: number }[] = [];
  const verbose = new Backlog<string>((lines, dropped) => batches.push({ lines, dropped }));
  verbose.add("first");
  assert.deepEqual(batches, [{ lines: ["first"], dropped: 0 }]);
  for (let i = 0; i < 2500; i++) verbose.add(`${i}`);
  assert.equal(batches.length, 1);
  verbose.taken();
  assert.equal(batches[1]!.lines.length, 1000);
  assert.equal(batches[1]!.lines[999], "999");
  assert.equal(batches[1]!.dropped, 1500);
  verbose.taken();
  assert.equal(batches.length, 2, "nothing is sent when there is nothing");
  verbose.add("at once again");
  verbose.add("last words");
  verbose.flush();
  assert.deepEqual(batches.slice(2), [
    { lines: ["at once again"], dropped: 0 },
    { lines: ["last words"], dropped: 0 },
  ]);
});
