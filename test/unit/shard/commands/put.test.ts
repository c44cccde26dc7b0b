// Tests of the cache of names.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Span } from "../../../../src/protocol/request.ts";
import { NameCache } from "../../../../src/shard/commands/put.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

test("a name is its bytes, however many names came before", () => {
  const random = new SeededRandom(11);
  const names = new NameCache();
  const span = new Span();
  for (let i = 0; i < 5000; i++) {
    // Few letters and lengths, so that many have the same place, length or end.
    const text = Array.from({ length: random.below(5) }, () => random.pick(["a", "b", "é"])!).join("");
    const bytes = Buffer.from(`#${text}#`, "latin1");
    span.set(bytes, 1, bytes.length - 1);
    assert.equal(names.textOf(span), text);
  }
});
