// Tests of settings in words, one of each kind.

import assert from "node:assert/strict";
import { it } from "node:test";
import { valueInWords } from "../../../../src/dashboard/parts/setting-fields.ts";
import { SETTINGS } from "../../../../src/schema/setting.ts";

const SAID: readonly (readonly [name: string, value: number | string, words: string])[] = [
  ["maxJobs", 5, "5"],
  ["maxBytes", 2048, "2.0 kB"],
  ["ttl", 7200, "2 h"],
  ["ttl", 7201.5, "7,201.5 s"],
  ["deadLetter", "dead", "dead"],
  ["rate", "10/1", "10 in a second"],
  ["expire", "bury", "buried"],
];

it("the value of a setting is said in the words of its kind", () => {
  const kinds = new Set<string>();
  for (const [name, value, words] of SAID) {
    const setting = SETTINGS.find((each) => each.name === name)!;
    kinds.add(setting.kind);
    assert.equal(valueInWords(setting, value), words, name);
  }
  assert.deepEqual([...kinds].sort(), [...new Set(SETTINGS.map(({ kind }) => kind))].sort());
});
