// Tests of sizes and durations as operators write them.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseDurationMs, parseSize, sizeText } from "../../../src/config/setting.ts";

describe("parseSize", () => {
  for (const [text, bytes] of [
    ["0", 0],
    ["65535", 65535],
    ["64K", 65536],
    ["64k", 65536],
    ["1.5M", 1572864],
    ["8G", 8589934592],
    ["8GiB", 8589934592],
    ["2 TB", 2199023255552],
  ] as const) {
    it(`reads ${text}`, () => assert.equal(parseSize(text), bytes));
  }
  for (const text of ["", "M", "-1", "1e3", "0x10", "10 apples", "1..5", "99999999T"]) {
    it(`refuses "${text}"`, () => assert.equal(parseSize(text), undefined));
  }
  it("reads the output of sizeText", () => {
    for (const bytes of [0, 1, 1023, 1024, 65536, 1572864, 8589934592])
      assert.equal(parseSize(sizeText(bytes)), bytes);
  });
});

describe("parseDurationMs", () => {
  for (const [text, unit, ms] of [
    ["50", "ms", 50],
    ["50", "s", 50_000],
    ["250ms", "s", 250],
    ["30s", "ms", 30_000],
    ["1.5h", "s", 5_400_000],
    ["7d", "s", 604_800_000],
    ["0.0005m", "s", 30],
    ["1.0000", "s", 1000],
    ["1.1h", "s", 3_960_000],
    ["8.2", "s", 8200],
    [" 5 m ", "ms", 300_000],
  ] as const) {
    it(`reads ${text} (bare: ${unit})`, () => assert.equal(parseDurationMs(text, unit), ms));
  }
  for (const text of [
    "",
    " ",
    "s",
    "-1s",
    "1w",
    "1 s s",
    "NaN",
    "1e3",
    "5x",
    "٥m",
    "1h30m",
    "0.0004",
    "0.4ms",
    "0.5ms ",
  ]) {
    it(`refuses "${text}"`, () => assert.equal(parseDurationMs(text, "s"), undefined));
  }
});
