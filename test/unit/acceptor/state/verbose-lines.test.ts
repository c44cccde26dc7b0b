// Tests of an acceptor's verbose lines: bounded, whatever the main thread does.

import assert from "node:assert/strict";
import { it } from "node:test";
import { VerboseLines } from "../../../../src/acceptor/state/verbose-lines.ts";

it("VerboseLines has one batch in flight, keeps a bounded number of lines and counts the rest", () => {
  const batches: { lines: string[]; dropped: number }[] = [];
  const verbose = new VerboseLines((lines, dropped) => batches.push({ lines, dropped }));
  verbose.say("first");
  assert.deepEqual(batches, [{ lines: ["first"], dropped: 0 }]);
  for (let i = 0; i < 2500; i++) verbose.say(`${i}`);
  assert.equal(batches.length, 1);
  verbose.taken();
  assert.equal(batches[1]!.lines.length, 1000);
  assert.equal(batches[1]!.lines[999], "999");
  assert.equal(batches[1]!.dropped, 1500);
  verbose.taken();
  assert.equal(batches.length, 2, "nothing is sent when there is nothing");
  verbose.say("at once again");
  verbose.say("last words");
  verbose.flush();
  assert.deepEqual(batches.slice(2), [
    { lines: ["at once again"], dropped: 0 },
    { lines: ["last words"], dropped: 0 },
  ]);
});
