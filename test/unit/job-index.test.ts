import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { JobIndex } from "../../src/engine/job-index.ts";
import { NO_SLOT } from "../../src/engine/job-table.ts";
import { checkProperty } from "../support/seeded-property.ts";

const id = fc.oneof(
  fc.integer({ min: 4090, max: 4102 }),
  fc.integer({ min: 1, max: 20_000 }),
  fc.integer({ min: 2 ** 32 - 3, max: 2 ** 32 + 3 }),
  fc.integer({ min: Number.MAX_SAFE_INTEGER - 2, max: Number.MAX_SAFE_INTEGER }),
);
const step = fc.record({ act: fc.constantFrom("set", "set", "delete", "get"), id, slot: fc.nat(1000) });

it("JobIndex answers as a Map, also for ids over pages and beyond 32 bits", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const index = new JobIndex();
      const map = new Map<number, number>();
      for (const each of steps) {
        if (each.act === "set") {
          index.set(each.id, each.slot);
          map.set(each.id, each.slot);
        } else if (each.act === "delete") {
          index.delete(each.id);
          map.delete(each.id);
        }
        assert.equal(index.get(each.id), map.get(each.id) ?? NO_SLOT);
      }
      for (const [known, slot] of map) assert.equal(index.get(known), slot);
      assert.equal(index.get(0), NO_SLOT);
    }),
    300,
  );
});
