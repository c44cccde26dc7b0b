import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { BestHeap } from "../../../../src/engine/queues/heaps.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

interface Entry {
  place: number;
}

const step = fc.oneof(
  fc.record({ push: fc.nat(20) }),
  fc.record({ moveTo: fc.nat(20) }),
  fc.record({ pop: fc.constant(true) }),
);

it("BestHeap has the least entry first, also after the first has changed", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const heap = new BestHeap<Entry>((a, b) => a.place < b.place);
      const places: number[] = [];
      const least = (): number | undefined => places.sort((a, b) => a - b)[0];
      for (const each of steps) {
        if ("push" in each) {
          heap.push({ place: each.push });
          places.push(each.push);
        } else if ("pop" in each) {
          assert.equal(heap.pop()?.place, least());
          places.shift();
        } else if (heap.first !== undefined) {
          least();
          places[0] = each.moveTo;
          heap.first.place = each.moveTo;
          heap.firstChanged();
        }
        assert.equal(heap.first?.place, least());
      }
    }),
    200,
  );
});
