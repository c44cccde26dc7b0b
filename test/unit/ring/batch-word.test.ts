// Tests of a batch's number in one word that wraps.

import assert from "node:assert/strict";
import { it } from "node:test";
import { BatchWord } from "../../../src/ring/log-words.ts";

it("BatchWord gives back each number, beyond 32 bits too", () => {
  const word = new BatchWord(new Int32Array(new SharedArrayBuffer(8)), 1);
  assert.equal(word.read(0), 0);
  for (const n of [1, 7, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 5 * 2 ** 32 + 3]) {
    word.publish(n);
    assert.equal(word.lowBits, n % 2 ** 32);
    for (const ahead of [0, 1, 1000, 2 ** 31 - 1]) assert.equal(word.read(n + ahead), n);
  }
});
