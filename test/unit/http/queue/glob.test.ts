import assert from "node:assert/strict";
import { it } from "node:test";
import { array, constantFrom, property } from "fast-check";
import { matchesGlob } from "../../../../src/http/queue/glob.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

it("A glob matches what its regular expression does", (t) => {
  const text = (letters: string) =>
    array(constantFrom(...letters), { maxLength: 8 }).map((each) => each.join(""));
  checkProperty(
    t,
    property(text("ab.*?"), text("ab."), (glob, name) => {
      const source = glob.replaceAll(".", "\\.").replaceAll("*", ".*").replaceAll("?", ".");
      assert.equal(matchesGlob(glob, name), new RegExp(`^${source}$`).test(name), `${glob} ${name}`);
    }),
    2000,
  );
});

it("A glob of many stars takes no more than the product of the lengths", () => {
  const began = performance.now();
  assert.equal(matchesGlob("*a".repeat(100), `${"a".repeat(199)}b`), false);
  assert.ok(performance.now() - began < 1000);
});
