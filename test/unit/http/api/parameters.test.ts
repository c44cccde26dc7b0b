// Tests of the filters of jobs over HTTP: each of them reaches the shards.

import assert from "node:assert/strict";
import { it } from "node:test";
import { WhereBody, whereOf } from "../../../../src/http/api/parameters.ts";
import { Problem } from "../../../../src/http/api/problem.ts";

/** A filter with every field but textBase64, which stands for text. */
const ALL = {
  ...{ idFrom: 1, idTo: 2, priFrom: 3, priTo: 4, ageFrom: 5.5, ageTo: 6.5, reservesFrom: 7, timeoutsFrom: 8 },
  ...{ disconnectsFrom: 9 },
  ...{ dead: false, group: "grün", unique: "schön", batch: "b/1", waitsFor: "b/2", ofBatch: "b/3" },
  text: "höher",
};

it("every field of a filter reaches the shards", () => {
  const { text, group, unique, ...plain } = ALL;
  const latin1 = (value: string): string => Buffer.from(value).toString("latin1");
  const expected = { ...plain, group: latin1(group), unique: latin1(unique), text: Buffer.from(text) };
  assert.deepEqual(whereOf(ALL), expected);
  const { text: _, ...others } = ALL;
  const textBase64 = Buffer.from(text).toString("base64");
  assert.deepEqual(whereOf({ ...others, textBase64 }), expected);
  assert.deepEqual(Object.keys(WhereBody.properties).sort(), [...Object.keys(ALL), "textBase64"].sort());
  for (const [field, value] of Object.entries(ALL))
    assert.deepEqual(whereOf({ [field]: value }), { [field]: expected[field as keyof typeof expected] });
  assert.deepEqual(whereOf({}), {});
});

it("a text has 1 to 200 bytes, and comes once", () => {
  const refused = (given: Parameters<typeof whereOf>[0]): boolean => {
    try {
      whereOf(given);
      return false;
    } catch (error) {
      assert.ok(error instanceof Problem && error.code === "bad-request");
      return true;
    }
  };
  const base64 = (bytes: number): string => Buffer.alloc(bytes, 1).toString("base64");
  for (const [given, isRefused] of [
    [{ text: "x".repeat(200) }, false],
    [{ text: `ö${"x".repeat(198)}` }, false],
    [{ text: `ö${"x".repeat(199)}` }, true],
    [{ textBase64: base64(200) }, false],
    [{ textBase64: base64(201) }, true],
    [{ textBase64: "====" }, true],
    [{ text: "a", textBase64: "YQ==" }, true],
  ] as const)
    assert.equal(refused(given), isRefused, JSON.stringify(given));
});
