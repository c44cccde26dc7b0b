// MessagePack of clients: plain values, not too deep, and no names that mean something to objects.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { packMsgpack, parseMsgpack } from "../../../../src/http/api/media.ts";
import { Problem } from "../../../../src/http/api/problem.ts";

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

  it("refuses what is nested more than 32 deep", () => {
    parseMsgpack(arrays(33));
    refuses(arrays(34), /more than 32 deep/);
  });

  it("refuses fields that are called as what objects have", () => {
    refuses(mapWith("constructor"), /can't be constructor/);
    assert.equal(Object.getPrototypeOf(parseMsgpack(mapWith("proto"))), Object.prototype);
  });

  it("refuses extensions: a time, and one that nobody knows", () => {
    refuses(Buffer.from([0xd6, 0xff, 0, 0, 0, 1]), /extensions are not read|broken/);
    refuses(Buffer.from([0xd4, 0x40, 0]), /extensions are not read|broken/);
  });
});
