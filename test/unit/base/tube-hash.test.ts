import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { asciiBytes, shardOfTube, tubeHash } from "../../../src/base/bytes.ts";
import { checkProperty } from "../../support/seeded-property.ts";

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
