import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { HEX_BYTES_MAX, hexRows, setOut } from "../../../../src/dashboard/pages/body-forms.ts";

describe("setOut", () => {
  it("keeps the meaning of any JSON", () => {
    fc.assert(
      fc.property(fc.oneof(fc.array(fc.jsonValue()), fc.dictionary(fc.string(), fc.jsonValue())), (value) => {
        assert.deepEqual(JSON.parse(setOut(JSON.stringify(value))!), JSON.parse(JSON.stringify(value)));
        assert.equal(setOut(JSON.stringify(value)), JSON.stringify(value, null, 2));
      }),
    );
  });

  it("keeps values as written, and repeated keys", () => {
    assert.equal(
      setOut('{"a":1.10,"a":12345678901234567890}'),
      '{\n  "a": 1.10,\n  "a": 12345678901234567890\n}',
    );
    assert.equal(setOut('["\\u0041 {[,:]}\\""]'), '[\n  "\\u0041 {[,:]}\\""\n]');
  });

  it("accepts only valid objects and arrays up to a depth", () => {
    for (const text of [
      undefined,
      "",
      "12",
      '"text"',
      "{",
      '{"a":}',
      "[1] [2]",
      "[".repeat(65) + "]".repeat(65),
    ])
      assert.equal(setOut(text), undefined, `${text}`);
    assert.notEqual(setOut("[".repeat(64) + "]".repeat(64)), undefined);
  });
});

describe("hexRows", () => {
  it("has offset, bytes and readable text", () => {
    assert.equal(
      hexRows(Buffer.from("0123456789abcdef\0\xff\n", "latin1")),
      `00000000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  |0123456789abcdef|
00000010  00 ff 0a                                          |...|`,
    );
    assert.equal(hexRows(new Uint8Array()), "");
  });

  it("ends at a limit", () => {
    assert.equal(hexRows(new Uint8Array(HEX_BYTES_MAX + 100)).split("\n").length, HEX_BYTES_MAX / 16);
  });
});
