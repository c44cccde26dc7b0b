// Tests of the problem that a refused put becomes.

import assert from "node:assert/strict";
import { it } from "node:test";
import { refused } from "../../../../src/http/jobs/put-routes.ts";
import type { Service } from "../../../../src/http/queue/service.ts";
import { ControlWord } from "../../../../src/message/topology.ts";

/** Returns the code of a put that runs out of memory while these words are set. */
function codeWith(set: readonly number[], isFull = false): string {
  const words = { isSet: (word: number) => set.includes(word) };
  return refused("OUT_OF_MEMORY", { words, memory: { isFull } } as Service).code;
}

it("names what is full: the group's log, the disk, or memory", () => {
  assert.equal(codeWith([ControlWord.SharedLogFull]), "shared-log-full");
  assert.equal(codeWith([ControlWord.BinlogFull]), "disk-full");
  assert.equal(codeWith([], true), "out-of-memory");
  assert.equal(codeWith([]), "out-of-memory");
});
