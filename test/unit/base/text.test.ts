// Tests of globs against a naive matcher.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { matchesGlob } from "../../../src/base/text.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

function naive(pattern: string, name: string): boolean {
  if (pattern === "") return name === "";
  if (pattern[0] === "*") {
    for (let at = 0; at <= name.length; at++) if (naive(pattern.slice(1), name.slice(at))) return true;
    return false;
  }
  return (
    name !== "" && (pattern[0] === "?" || pattern[0] === name[0]) && naive(pattern.slice(1), name.slice(1))
  );
}

describe("matchesGlob", () => {
  for (const [pattern, name, matches] of [
    ["mail-*", "mail-eu", true],
    ["mail-*", "mail-", true],
    ["mail-*", "mail", false],
    ["*", "", true],
    ["", "", true],
    ["", "a", false],
    ["a.c", "abc", false],
    ["*.eu", "mail.eu.eu", true],
    ["a?c", "abc", true],
    ["(x)+", "(x)+", true],
  ] as const) {
    it(`${pattern || "nothing"} and ${name || "nothing"}: ${matches}`, () => {
      assert.equal(matchesGlob(pattern, name), matches);
    });
  }

  it("agrees with the naive algorithm", () => {
    const random = new SeededRandom(7);
    const draw = (letters: string, length: number): string =>
      Array.from({ length }, () => letters[random.below(letters.length)]).join("");
    let matches = 0;
    for (let round = 0; round < 20_000; round++) {
      const pattern = draw("ab*?", random.below(7));
      const name = draw("ab", random.below(8));
      const expected = naive(pattern, name);
      assert.equal(matchesGlob(pattern, name), expected, `${pattern} ${name}`);
      if (expected) matches++;
    }
    assert.ok(matches > 1000, `${matches} of them match`);
  });

  it("stays fast with many stars", () => {
    const pattern = `${"a*".repeat(100)}b`;
    const { user } = process.threadCpuUsage();
    assert.equal(matchesGlob(pattern, "a".repeat(200)), false);
    assert.ok(process.threadCpuUsage().user - user < 1_000_000);
  });
});
