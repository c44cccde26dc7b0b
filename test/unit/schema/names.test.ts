// Tests of names in their other forms: clients know the words of the wire and of metrics.

import assert from "node:assert/strict";
import { it } from "node:test";
import { eachOf, wordOf } from "../../../src/schema/names.ts";

it("a name has a word for the wire and one for metrics", () => {
  assert.equal(wordOf("pri"), "pri");
  assert.equal(wordOf("groupMaxReserved"), "group-max-reserved");
  assert.equal(wordOf("groupMaxReserved", "_"), "group_max_reserved");
});

it("an object has a value for each name, in their order", () => {
  const lengths = eachOf(["puts", "reserves"] as const, (name) => name.length);
  assert.deepEqual(Object.entries(lengths), [
    ["puts", 4],
    ["reserves", 8],
  ]);
});
