import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import {
  asciiBytes,
  copyBytes,
  decimalDigits,
  latin1,
  shardOfTube,
  tubeHash,
  writeDecimal,
} from "../../../src/base/bytes.ts";
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

const hash = (name: string): number => {
  const bytes = asciiBytes(name);
  return tubeHash(bytes, 0, bytes.length);
};

// A tube's jobs are logged by its shard: the hash of a name must never change between versions.
it("tubeHash never changes", () => {
  assert.deepEqual(
    ["default", "a", "emails", "x".repeat(200)].map(hash),
    [2249642015, 187517516, 4269432100, 361034654],
  );
});

it("shardOfTube depends only on the name, not on its place", (t) => {
  checkProperty(
    t,
    fc.property(
      fc.string({ maxLength: 30 }),
      fc.integer({ min: 1, max: 64 }),
      fc.nat(9),
      (name, shards, at) => {
        const bytes = asciiBytes(`${"-".repeat(at)}${name}tail`);
        const shard = shardOfTube(bytes, at, at + name.length, shards);
        assert.equal(shard, shardOfTube(asciiBytes(name), 0, name.length, shards));
        assert.ok(Number.isInteger(shard) && shard >= 0 && shard < shards);
      },
    ),
  );
});

it("shardOfTube spreads numbered names at every number of shards", () => {
  for (const shards of [2, 3, 4, 7, 8, 16, 64]) {
    const counts = new Array<number>(shards).fill(0);
    const names = shards * 200;
    for (let i = 0; i < names; i++) {
      const name = asciiBytes(`tube-${i}`);
      counts[shardOfTube(name, 0, name.length, shards)]!++;
    }
    assert.ok(Math.min(...counts) > 120 && Math.max(...counts) < 280, `${shards} shards: ${counts}`);
  }
});
