import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { asciiBytes, copyBytes, latin1 } from "../../../src/base/bytes.ts";
import { checkProperty } from "../../support/seeded-property.ts";

it("copyBytes copies the range and touches nothing around it, short or long", (t) => {
  checkProperty(
    t,
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(300), fc.nat(50), (source, wantedFrom, at) => {
      const from = Math.min(wantedFrom, source.length);
      const length = source.length - from;
      const target = new Uint8Array(at + length + 7).fill(0xee);
      copyBytes(target, at, source, from, length);
      const expected = new Uint8Array(target.length).fill(0xee);
      expected.set(source.slice(from), at);
      assert.deepEqual(target, expected);
    }),
  );
});

it("latin1 undoes asciiBytes", (t) => {
  checkProperty(
    t,
    fc.property(fc.uint8Array(), (bytes) => {
      assert.deepEqual(asciiBytes(latin1(bytes, 0, bytes.length)), bytes);
    }),
  );
});
