// Tests of the numbers beside a map: what a walk costs behind many removed keys.

import assert from "node:assert/strict";
import { it } from "node:test";
import { SortedNumbers } from "../../../../src/engine/jobs/job-index.ts";

const COUNT = 100_000;

it("a walk passes many removed keys once, in both directions", () => {
  for (const isUpward of [true, false]) {
    const map = new Map<number, true>();
    const numbers = new SortedNumbers(map);
    for (let key = 1; key <= COUNT; key++) {
      map.set(key, true);
      numbers.add(key);
    }
    for (let key = COUNT / 4; key < (COUNT * 3) / 4; key++) {
      map.delete(key);
      numbers.noteLoss();
    }
    const walk = (): number | undefined =>
      isUpward ? numbers.from(COUNT / 4) : numbers.before((COUNT * 3) / 4);
    const expected = isUpward ? (COUNT * 3) / 4 : COUNT / 4 - 1;
    assert.equal(walk(), expected);
    assert.ok(numbers.looks > COUNT / 2, "the first walk is charged");
    numbers.looks = 0;
    for (let n = 0; n < 256; n++) assert.equal(walk(), expected);
    assert.ok(numbers.looks < 1000, `${numbers.looks} looks`);
  }
});
