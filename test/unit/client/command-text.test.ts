// Tests of the client's command lines, and of the values that it refuses.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  duration,
  optionsText,
  tubeName,
  tubePattern,
  whole,
  wholeSeconds,
} from "../../../src/client/command-text.ts";

describe("the client's command lines", () => {
  it("accept names of tubes, and nothing that would be another command", () => {
    for (const name of ["a", "A9+/;.$_()-", "x".repeat(200)]) assert.equal(tubeName(name), name);
    for (const name of ["", "-a", "a b", "a\r\ndelete 1", "a\n", "ü", "a*", "x".repeat(201)])
      assert.throws(() => tubeName(name), TypeError, name);
    assert.throws(() => tubeName(undefined as unknown as string), TypeError);
    for (const name of ["*", "mails-*", "mails"]) assert.equal(tubePattern(name), name);
    for (const name of ["**", "*a", "-*", " *"]) assert.throws(() => tubePattern(name), TypeError, name);
  });

  it("accept whole numbers in their range", () => {
    for (const number of [0, 1, 4294967295]) assert.equal(whole(number, "pri"), `${number}`);
    for (const number of [-1, 0.5, Number.NaN, 4294967296, "1" as unknown as number])
      assert.throws(() => whole(number, "pri"), RangeError, `${number}`);
  });

  it("write durations to the millisecond, never shorter than requested", () => {
    const cases: [number, string, string][] = [
      [0, "0", "0"],
      [0.25, "0.25", "1"],
      [0.1 + 0.2, "0.3", "1"],
      [1e-4, "0.001", "1"],
      [2.0001, "2.001", "3"],
      [90, "90", "90"],
      [4294967295, "4294967295", "4294967295"],
    ];
    for (const [seconds, exact, rounded] of cases) {
      assert.equal(duration(seconds, "delay"), exact);
      assert.equal(wholeSeconds(seconds, "delay"), rounded);
    }
    for (const seconds of [-0.001, Number.NaN, Number.POSITIVE_INFINITY, 4294967296])
      assert.throws(() => duration(seconds, "delay"), RangeError, `${seconds}`);
  });

  it("write options by the names of the wire, with text that can't end the line", () => {
    assert.equal(
      optionsText({ unique: "welcome:42", uniqueFor: 0.5, group: undefined, weight: 3 }),
      " unique=welcome:42 unique-for=0.5 weight=3",
    );
    assert.equal(optionsText({ state: ["ready", "buried"] }, true), " state=ready,buried");
    assert.equal(optionsText({ contains: "50 %\r\n" }, true), " contains=50%20%25%0d%0a");
    assert.equal(optionsText({ contains: Uint8Array.of(0, 255) }, true), " contains=%00\xff");
    assert.equal(optionsText({ maxAttempts: 5, deadLetter: null }), " max-attempts=5 dead-letter=");
  });

  it("refuse other options and values", () => {
    const bad: object[] = [
      { unique: "a b" },
      { unique: "a\r\ndelete 1" },
      { unique: "" },
      { unique: "x".repeat(201) },
      { unique: "ü".repeat(101) },
      { uniqueFor: -1 },
      { "a b": 1 },
      { "a=1 b": 1 },
      { Unique: "a" },
      { weight: Number.NaN },
      { weight: {} },
    ];
    for (const options of bad) assert.throws(() => optionsText(options), JSON.stringify(options));
  });
});
