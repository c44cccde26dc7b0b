// Tests of a job's attributes as bytes.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes, Memory } from "../../../src/base/bytes.ts";
import {
  ALL_ATTRIBUTE_BYTES_MAX,
  ATTRIBUTE_BYTES_MAX,
  Attribute,
  AttributeWriter,
  attributesAreWhole,
  countAttributes,
  findAttribute,
  metaOf,
} from "../../../src/protocol/job-attribute.ts";

const writer = (): AttributeWriter => new AttributeWriter(Memory.ofSize(ALL_ATTRIBUTE_BYTES_MAX));
const listOf = (each: AttributeWriter): number[] => [...each.bytes.subarray(0, each.length)];
const bytes = (...list: number[]): Uint8Array => Uint8Array.from(list);

describe("AttributeWriter", () => {
  it("writes a tag, a length and a little-endian value", () => {
    const list = writer();
    list.flag(Attribute.Moved);
    list.uint8(Attribute.Reason, 2);
    list.uint16(Attribute.Weight, 0x102);
    list.uint32(Attribute.AttemptsBase, 0x1020304);
    list.text(Attribute.Group, asciiBytes("[mails]"), 1, 6);
    assert.deepEqual(listOf(list), [
      ...[Attribute.Moved, 0, Attribute.Reason, 1, 2, Attribute.Weight, 2, 2, 1],
      ...[Attribute.AttemptsBase, 4, 4, 3, 2, 1, Attribute.Group, 5, ...asciiBytes("mails")],
    ]);
    list.clear();
    list.float64(Attribute.ExpiresAt, 1);
    assert.deepEqual(listOf(list), [Attribute.ExpiresAt, 8, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    list.clear();
    list.flagged(Attribute.Batch, 1, 1);
    list.flagged(Attribute.After, 1, 0);
    assert.deepEqual(listOf(list), [
      ...[Attribute.Batch, 9, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 1],
      ...[Attribute.After, 9, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0],
    ]);
  });

  it("pads to units of 4 bytes, and of 32 when the list is long", () => {
    const list = writer();
    assert.equal(list.pad(), 0);
    list.uint8(Attribute.Reason, 9);
    assert.equal(list.pad(), 4);
    assert.deepEqual(listOf(list), [Attribute.Reason, 1, 9, 0]);
    assert.equal(list.pad(), 4);
    list.clear();
    const long = new Uint8Array(255).fill(7);
    for (let i = 0; i < 3; i++) list.text(Attribute.Meta, long, 0, 253);
    list.text(Attribute.Meta, long, 0, 252);
    assert.equal(list.length, 1019);
    assert.equal(list.pad(), ATTRIBUTE_BYTES_MAX);
    list.flag(Attribute.Moved);
    assert.equal(list.pad(), 1024);
    list.flag(Attribute.Moved);
    assert.equal(list.pad(), 1056);
  });

  it("pads with zeros, whatever an earlier list left", () => {
    const list = writer();
    list.text(Attribute.Meta, new Uint8Array(20).fill(7), 0, 20);
    list.clear();
    list.flag(Attribute.Moved);
    list.pad();
    assert.deepEqual(listOf(list), [Attribute.Moved, 0, 0, 0]);
  });
});

describe("a list of attributes", () => {
  const list = bytes(
    0xee,
    Attribute.Moved,
    0,
    Attribute.Group,
    2,
    65,
    66,
    Attribute.Reason,
    1,
    3,
    0,
    0,
    0xee,
  );
  const [start, end] = [1, 12];

  it("is searched by tag, up to its padding or end", () => {
    assert.equal(findAttribute(list, start, end, Attribute.Moved), 3);
    assert.equal(findAttribute(list, start, end, Attribute.Group), 5);
    assert.equal(findAttribute(list, start, end, Attribute.Reason), 9);
    assert.equal(findAttribute(list, start, end, Attribute.Weight), -1);
    assert.equal(findAttribute(list, start, end, 65), -1, "a byte of a value is no tag");
    assert.equal(findAttribute(list, start, end, 0), -1);
    assert.equal(findAttribute(list, start, 10, Attribute.Reason), 9, "to its last byte");
    assert.equal(findAttribute(list, start, 9, Attribute.Reason), -1, "its value is cut off");
    assert.equal(findAttribute(list, start, 8, Attribute.Reason), -1, "its length is cut off");
    assert.equal(findAttribute(bytes(0, 0, Attribute.Moved, 0), 0, 4, Attribute.Moved), -1);
    assert.equal(findAttribute(bytes(Attribute.Moved, 0), 0, 2, Attribute.Moved), 2);
    assert.equal(findAttribute(list, start, start, Attribute.Moved), -1);
  });

  it("is counted", () => {
    assert.equal(countAttributes(list, start, end), 3);
    assert.equal(countAttributes(list, start, 3), 1);
    assert.equal(countAttributes(list, start, 2), 0);
    assert.equal(countAttributes(list, start, start), 0);
    assert.equal(countAttributes(bytes(0, 0, 5, 0), 0, 4), 0);
  });

  it("is whole if its values end within it, and only zeros follow", () => {
    assert.ok(attributesAreWhole(list, start, end));
    assert.ok(attributesAreWhole(list, start, 10));
    assert.ok(attributesAreWhole(list, start, start));
    assert.ok(!attributesAreWhole(list, start, 9));
    assert.ok(!attributesAreWhole(list, start, 8));
    assert.ok(!attributesAreWhole(list, start, 13), "its padding is no zero");
    assert.ok(!attributesAreWhole(bytes(5, 0, 0, 1), 0, 4));
    assert.ok(attributesAreWhole(bytes(0, 0, 0, 0), 0, 4));
    assert.ok(!attributesAreWhole(bytes(0, 1), 0, 2));
    assert.ok(!attributesAreWhole(bytes(5), 0, 1), "a tag without a length");
  });

  it("has the pairs of meta in their order", () => {
    const { Meta, Group } = Attribute;
    const pairs = bytes(Group, 1, 65, Meta, 3, 97, 58, 49, Meta, 2, 98, 58, 0, 0);
    assert.deepEqual(metaOf(pairs), ["a:1", "b:"]);
    assert.deepEqual(metaOf(bytes(Meta, 2, 98, 58)), ["b:"]);
    assert.deepEqual(metaOf(bytes(Group, 2, Meta, 0)), []);
    assert.deepEqual(metaOf(bytes()), []);
    assert.deepEqual(metaOf(bytes(Meta, 0)), [""]);
  });
});
