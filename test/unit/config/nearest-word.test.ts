// Tests of the nearest known word for an unknown one.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nearestWord } from "../../../src/config/read-settings.ts";

const WORDS = ["max-memory", "max-connections", "port", "listen", "shards"];

describe("nearestWord", () => {
  for (const [word, nearest] of [
    ["max-memoy", "max-memory"],
    ["shardz", "shards"],
    ["prot", "port"],
    ["lissten", "listen"],
    ["something-else-altogether", undefined],
    ["", undefined],
  ] as const) {
    it(`suggests ${nearest} for "${word}"`, () => assert.equal(nearestWord(word, WORDS), nearest));
  }
});
