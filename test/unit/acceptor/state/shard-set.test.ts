import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { ShardSet } from "../../../../src/acceptor/migration/client-state.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

const step = fc.tuple(fc.boolean(), fc.oneof(fc.nat(63), fc.constantFrom(0, 31, 32, 63)));

it("ShardSet answers as a Set of 0 to 63", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const shards = new ShardSet();
      const set = new Set<number>();
      for (const [adds, shard] of steps) {
        if (adds) {
          shards.add(shard);
          set.add(shard);
        } else {
          shards.delete(shard);
          set.delete(shard);
        }
        assert.equal(shards.empty, set.size === 0);
        for (let each = 0; each < 64; each++) {
          assert.equal(shards.has(each), set.has(each));
          assert.equal(
            shards.within(each),
            [...set].every((member) => member === each),
          );
        }
      }
    }),
  );
});
