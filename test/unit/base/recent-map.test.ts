// Tests of a map that forgets its oldest entries, against a list.

import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { RecentMap } from "../../../src/base/recent-map.ts";
import { memoryInUse, settledBytes } from "../../support/machine/memory-in-use.ts";
import { checkProperty } from "../../support/seeded-property.ts";

const MAX = 8;

it("remembers as many entries as its bound, and forgets the oldest first", (t) => {
  const step = fc.record({
    key: fc.integer({ min: 0, max: 20 }),
    deletes: fc.boolean(),
    looks: fc.boolean(),
  });
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const map = new RecentMap<number, number>(MAX);
      /** Keys with their last values, the one that was set last at the end. */
      let list: [key: number, value: number][] = [];
      for (const [value, { key, deletes, looks }] of steps.entries()) {
        list = list.filter(([each]) => each !== key);
        if (deletes) map.delete(key);
        else {
          map.set(key, value);
          list.push([key, value]);
        }
        list = list.slice(-MAX);
        assert.equal(map.size, list.length);
        if (looks) assert.equal(map.oldest, list[0]?.[0]);
        const known = new Map(list);
        for (let each = 0; each <= 20; each++) {
          assert.equal(map.has(each), known.has(each));
          assert.equal(map.get(each), known.get(each), "the last value");
        }
      }
    }),
    300,
  );
});

it("costs the same per entry, however many have been forgotten", () => {
  const map = new RecentMap<number, true>(100_000);
  const begin = process.cpuUsage();
  for (let key = 0; key < 300_000; key++) map.set(key, true);
  const { user } = process.cpuUsage(begin);
  assert.deepEqual([map.size, map.has(200_000), map.has(199_999)], [100_000, true, false]);
  // 0.3 s on a busy machine; an iterator made anew for each entry takes 10 s.
  assert.ok(user < 3_000_000, `${user / 1000} ms`);
});

it("takes no memory for entries that are gone, whether or not it reaches its bound", () => {
  for (const kept of [0, 1]) {
    const map = new RecentMap<number, true>(100_000);
    for (let key = -kept; key < 0; key++) map.set(key, true);
    if (kept > 0) assert.equal(map.oldest, -1, "looked for once, and there ever since");
    const before = memoryInUse();
    for (let key = 0; key < 200_000; key++) {
      map.set(key, true);
      map.delete(key);
    }
    const bytes = settledBytes(1_000_000, () => memoryInUse() - before);
    assert.ok(bytes < 1_000_000, `${bytes} bytes with ${map.size} entries`);
  }
});
