import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { Timer, TimerHeap } from "../../../../src/engine/queues/heaps.ts";
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
