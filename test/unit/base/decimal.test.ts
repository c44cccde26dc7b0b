import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { decimalDigits, latin1, writeDecimal } from "../../../src/base/bytes.ts";
import { checkProperty } from "../../support/seeded-property.ts";

function written(value: number): string {
  const target = new Uint8Array(32).fill(0x21);
  const end = writeDecimal(target, 3, value);
  assert.equal(latin1(target, 0, 3), "!!!");
  assert.equal(target[end], 0x21);
  return latin1(target, 3, end);
}

it("writeDecimal and decimalDigits agree with String at every power of two and ten", () => {
  const edges = [0, Number.MAX_SAFE_INTEGER];
  for (let power = 1; power < 53; power++) edges.push(2 ** power - 1, 2 ** power, 2 ** power + 1);
  for (let power = 1; power < 16; power++) edges.push(10 ** power - 1, 10 ** power, 10 ** power + 1);
  for (const value of edges) {
    assert.equal(written(value), String(value));
    assert.equal(decimalDigits(value), String(value).length);
  }
});

it("writeDecimal writes any safe integer as String does", (t) => {
  checkProperty(
    t,
    fc.property(fc.maxSafeNat(), (value) => {
      assert.equal(written(value), String(value));
    }),
    1000,
  );
});
