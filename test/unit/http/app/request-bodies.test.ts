// Tests of MessagePack from clients: plain values, limited depth, and no names with a special
// meaning in objects.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { Problem } from "../../../../src/http/api/problem.ts";
import { packMsgpack, parseMsgpack } from "../../../../src/http/app/request-bodies.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

/** A map with one field, 1. */
const mapWith = (key: string): Buffer =>
  Buffer.concat([Buffer.from([0x81, 0xa0 + key.length]), Buffer.from(key), Buffer.from([1])]);
/** Arrays in each other, the innermost of them empty. */
const arrays = (count: number): Buffer => Buffer.concat([Buffer.alloc(count - 1, 0x91), Buffer.from([0x90])]);
const refuses = (bytes: Buffer, why: RegExp): void =>
  assert.throws(
    () => parseMsgpack(bytes),
    (error) => error instanceof Problem && why.test(error.message),
  );

describe("parseMsgpack", () => {
  it("takes plain values", () => {
    const value = { a: [1, "b", null, true], body: Buffer.from([0, 255]) };
    assert.deepEqual(parseMsgpack(packMsgpack(value)), value);
  });

  it("refuses more than 32 levels", () => {
    parseMsgpack(arrays(33));
    refuses(arrays(34), /more than 32 deep/);
  });

  it("refuses fields with names of prototypes", () => {
    refuses(mapWith("constructor"), /can't be constructor/);
    assert.equal(Object.getPrototypeOf(parseMsgpack(mapWith("proto"))), Object.prototype);
  });

  it("refuses extensions: a time, and an unknown one", () => {
    refuses(Buffer.from([0xd6, 0xff, 0, 0, 0, 1]), /extension types are not supported|broken/);
    refuses(Buffer.from([0xd4, 0x40, 0]), /extension types are not supported|broken/);
  });

  it("refuses extensions before decoding them: a large integer, records, pointers", () => {
    const text = (value: string): Buffer => Buffer.from([0xa0 + value.length, ...Buffer.from(value)]);
    const long = Buffer.concat([Buffer.from([0xc9, 0, 0x7a, 0x12, 0, 0x42]), Buffer.alloc(8_000_000, 0x7f)]);
    for (const value of [
      long,
      Buffer.from([0xd4, 0, 0]),
      Buffer.from([0xd6, 0x70, 0, 0, 0, 1]),
      Buffer.from([0xc7, 4, 0x74, 1, 2, 3, 4]),
      Buffer.from([0xd8, 0x42, ...Buffer.alloc(16, 1)]),
      Buffer.concat([Buffer.from([0xd4, 0x72, 0x40, 0x91]), text("a"), Buffer.from([1])]),
    ]) {
      refuses(value, /extension types are not supported/);
      refuses(Buffer.concat([Buffer.from([0x81]), text("json"), value]), /extension types are not supported/);
    }
  });

  it("refuses the byte that MessagePack never uses, wherever a value may be", () => {
    for (const around of [[], [0x91], [0x92, 1], [0x81, 0xa1, 0x61], [0x81, 0xa1, 0x61, 0x92, 1]])
      refuses(Buffer.from([...around, 0xc1]), /broken: it has the byte 0xc1/);
    refuses(Buffer.from([0x92, 0xc1, 1]), /0xc1/);
    const bytes = { body: Buffer.from([0xc1]) };
    assert.deepEqual(parseMsgpack(packMsgpack(bytes)), bytes);
  });

  it("refuses numbers outside JSON, and integers beyond doubles", () => {
    const double = (value: number): Buffer => {
      const bytes = Buffer.from([0xcb, ...Buffer.alloc(8)]);
      bytes.writeDoubleBE(value, 1);
      return bytes;
    };
    const integer = (head: number, value: bigint): Buffer => {
      const bytes = Buffer.from([head, ...Buffer.alloc(8)]);
      bytes.writeBigUInt64BE(BigInt.asUintN(64, value), 1);
      return bytes;
    };
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
      refuses(double(value), /not a finite number/);
    refuses(Buffer.from([0xca, 0x7f, 0x80, 0, 0]), /not a finite number/);
    assert.equal(parseMsgpack(double(1e300)), 1e300);
    const safe = BigInt(Number.MAX_SAFE_INTEGER);
    assert.equal(parseMsgpack(integer(0xcf, safe)), Number.MAX_SAFE_INTEGER);
    assert.equal(parseMsgpack(integer(0xd3, -safe)), Number.MIN_SAFE_INTEGER);
    for (const [head, value] of [
      [0xcf, safe + 1n],
      [0xcf, 2n ** 64n - 1n],
      [0xd3, safe + 1n],
      [0xd3, -(2n ** 63n)],
    ] as const)
      refuses(integer(head, value), /between -2\^53 and 2\^53 - 1/);
  });

  it("refuses keys that aren't text or repeat, and invalid UTF-8", () => {
    refuses(Buffer.from([0x81, 0x01, 0x02]), /Keys .* must be strings/);
    refuses(Buffer.from([0x81, 0xc0, 0x02]), /Keys .* must be strings/);
    refuses(Buffer.from([0x82, 0xa1, 0x61, 0x01, 0xa1, 0x61, 0x02]), /The field a appears twice/);
    refuses(mapWith("__proto__"), /can't be __proto__/);
    refuses(Buffer.from([0xa2, 0xff, 0xfe]), /not valid UTF-8/);
    refuses(Buffer.from([0x91, 0xd9, 2, 0xc3, 0x28]), /not valid UTF-8/);
    // The same key in another map, and as a value.
    const twice = [{ a: { a: "a" } }, { a: ["a", "a"] }];
    assert.deepEqual(parseMsgpack(packMsgpack(twice)), twice);
  });

  it("reads its own output, and ends for any bytes", (t) => {
    checkProperty(
      t,
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        try {
          parseMsgpack(Buffer.from(bytes));
        } catch (error) {
          assert.ok(error instanceof Problem, `${error}`);
        }
      }),
      2000,
    );
    const plain = fc
      .jsonValue({ maxDepth: 6 })
      .filter((value) => !/"(?:__proto__|constructor)":/.test(JSON.stringify(value)));
    checkProperty(
      t,
      fc.property(plain, (value) =>
        assert.equal(JSON.stringify(parseMsgpack(packMsgpack(value))), JSON.stringify(value)),
      ),
      500,
    );
  });
});
