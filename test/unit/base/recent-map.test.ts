// Tests of a map that forgets its oldest entries, against a list.

import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { RecentMap } from "../../../src/base/recent-map.ts";
import { checkProperty } from "../../support/seeded-property.ts";

const MAX = 8;

it("remembers the last half of its bound and nothing beyond the bound", (t) => {
  const step = fc.record({ key: fc.integer({ min: 0, max: 20 }), deletes: fc.boolean() });
  checkProperty(
    t,
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const map = new RecentMap<number, number>(MAX);
      /** Keys with their last values, the one that was set last at the end. */
      let list: [key: number, value: number][] = [];
      for (const [value, { key, deletes }] of steps.entries()) {
        list = list.filter(([each]) => each !== key);
        if (deletes) map.delete(key);
        else {
          map.set(key, value);
          list.push([key, value]);
        }
        assert.ok(map.size <= MAX);
        assert.equal(map.has(key), !deletes);
        for (const [each, known] of list)
          if (map.has(each)) assert.equal(map.get(each), known, "the value that was set last");
        for (const [each, known] of list.slice(-MAX / 2)) assert.equal(map.get(each), known);
        for (let each = 0; each <= 20; each++)
          if (map.has(each))
            assert.ok(
              list.some(([known]) => known === each),
              "nothing that was deleted",
            );
      }
    }),
    300,
  );
});
