import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { BestHeap, Timer, TimerHeap } from "../../../../src/engine/queues/heaps.ts";
import { checkProperty } from "../../../support/seeded-property.ts";

const OWNERS = 12;
const step = fc.record({
  owner: fc.nat(OWNERS - 1),
  atMs: fc.oneof(fc.nat(20), fc.constant(Number.POSITIVE_INFINITY)),
});

it("TimerHeap knows the earliest timer through sets, moves and clears", (t) => {
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const heap = new TimerHeap<number>();
      const timers = Array.from({ length: OWNERS }, (_, owner) => new Timer(owner));
      for (const { owner, atMs } of steps) {
        heap.set(timers[owner]!, atMs);
        const times = timers.map((timer) => timer.atMs);
        const earliest = Math.min(...times);
        assert.equal(timers[owner]!.atMs, atMs);
        assert.equal(heap.nextAtMs, earliest);
        assert.equal(heap.first === undefined ? Number.POSITIVE_INFINITY : times[heap.first], earliest);
        const set = timers.filter((timer) => timer.atMs < Number.POSITIVE_INFINITY);
        assert.deepEqual(
          set.map((timer) => timer.position).sort((a, b) => a - b),
          set.map((_, position) => position),
        );
        for (const timer of timers) assert.equal(timer.position >= 0, set.includes(timer));
      }
    }),
  );
});

it("TimerHeap is empty at first", () => {
  const heap = new TimerHeap<string>();
  assert.equal(heap.nextAtMs, Number.POSITIVE_INFINITY);
  assert.equal(heap.first, undefined);
});

describe("best heap", () => {
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
});
