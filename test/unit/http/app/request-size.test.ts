// Tests of the limit of values in a request, counted before parsing, in both formats.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { checkJsonSize, checkMsgpackSize, packMsgpack } from "../../../../src/http/app/request-bodies.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

const VALUES_MAX = 250_000;
const tooMany = /at most 250000 values/;

/** Values and, of objects, keys, which are values of their own in MessagePack. */
function valuesOf(value: unknown, withKeys: boolean): number {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return 1;
  const entries = Object.entries(value);
  const keys = withKeys && !Array.isArray(value) ? entries.length : 0;
  return 1 + keys + entries.reduce((sum, [, each]) => sum + valuesOf(each, withKeys), 0);
}

const values = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.string({ maxLength: 300 }),
    fc.integer(),
    fc.double({ noNaN: true }),
    fc.boolean(),
    fc.constant(null),
    fc.uint8Array({ maxLength: 300 }),
    fc.array(tie("value"), { maxLength: 30 }),
    fc.dictionary(fc.string({ maxLength: 40 }), tie("value"), { maxKeys: 20 }),
  ),
})).value;

describe("the size of a request", () => {
  it("is exactly that of its values in MessagePack", (t) => {
    checkProperty(
      t,
      fc.property(values, (value) => {
        const count = valuesOf(value, true);
        const copies = Math.floor((VALUES_MAX - 1) / count);
        if (copies > 20_000) return;
        const one = packMsgpack(value);
        const array = (length: number): Buffer => {
          const head = Buffer.from([0xdd, 0, 0, 0, 0]);
          head.writeUInt32BE(length, 1);
          return Buffer.concat([head, ...Array.from({ length }, () => one)]);
        };
        checkMsgpackSize(array(copies));
        assert.throws(() => checkMsgpackSize(array(copies + 1)), tooMany);
      }),
      10,
    );
    checkMsgpackSize(Buffer.alloc(VALUES_MAX, 0xc0));
    assert.throws(() => checkMsgpackSize(Buffer.alloc(VALUES_MAX + 1, 0xc0)), tooMany);
  });

  it("is found in truncated or invalid MessagePack", () => {
    for (let head = 0; head < 256; head++)
      for (const rest of [[], [0xff], [0xff, 0xff, 0xff], [0xff, 0xff, 0xff, 0xff, 1]])
        checkMsgpackSize(Buffer.from([head, ...rest]));
  });

  it("is that of its values in JSON, without the contents of strings", () => {
    const arrays = (count: number): string => `[${"[],".repeat(count - 1)}[]]`;
    checkJsonSize(arrays(VALUES_MAX / 2));
    assert.throws(() => checkJsonSize(arrays(VALUES_MAX / 2 + 1)), tooMany);
    assert.throws(() => checkJsonSize(`[${"1,".repeat(VALUES_MAX)}1]`), tooMany);
    assert.throws(() => checkJsonSize(`{${'"a":0,'.repeat(VALUES_MAX)}"a":0}`), tooMany);
    const commas = ",".repeat(4 * VALUES_MAX);
    for (const text of [
      `"${commas}"`,
      `["\\"${commas}\\\\", "${commas}"]`,
      `{"${commas}\\\\\\"[":"${commas}"}`,
    ]) {
      JSON.parse(text);
      checkJsonSize(text);
    }
    assert.throws(() => checkJsonSize(`["\\\\",${"1,".repeat(VALUES_MAX)}1]`), tooMany);
    // Not well formed: no loop without an end.
    for (const text of ['"'.repeat(3 * VALUES_MAX + 1), `"${"\\".repeat(3 * VALUES_MAX)}`])
      checkJsonSize(text);
  });
});
