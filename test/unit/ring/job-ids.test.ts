import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { JobIds } from "../../../src/ring/job-ids.ts";
import { checkProperty } from "../../support/seeded-property.ts";

const HINT_UNIT = 2 ** 24;

function idsFrom(next: number): JobIds {
  const ids = new JobIds(new Int32Array(new SharedArrayBuffer(16)), 1);
  ids.reset(next);
  return ids;
}

for (const boundary of [
  1,
  HINT_UNIT,
  3 * HINT_UNIT,
  2 ** 31,
  2 ** 32,
  2 ** 32 + HINT_UNIT,
  2 ** 33,
  2 ** 40,
  2 ** 52,
]) {
  it(`JobIds counts over ${boundary}`, () => {
    const first = Math.max(1, boundary - 3);
    const ids = idsFrom(first);
    for (let i = 0; i < 8; i++) assert.equal(ids.take(), first + i);
  });
}

it("JobIds gives consecutive ids from any start", (t) => {
  checkProperty(
    t,
    fc.property(fc.integer({ min: 1, max: 2 ** 53 - 10 }), (first) => {
      const ids = idsFrom(first);
      for (let i = 0; i < 3; i++) assert.equal(ids.take(), first + i);
    }),
    500,
  );
});

it("JobIds completes an id while the hint is up to 2^31 ids behind or a few ahead", (t) => {
  checkProperty(
    t,
    fc.property(
      fc.integer({ min: 1, max: 2 ** 44 }),
      fc.integer({ min: -1, max: 126 }),
      (next, unitsBehind) => {
        const words = new Int32Array(new SharedArrayBuffer(8));
        const ids = new JobIds(words, 0);
        ids.reset(next);
        // Another thread took an id at a boundary and was held up before it stored its hint.
        words[1] = Math.max(0, Math.floor(next / HINT_UNIT) - unitsBehind);
        assert.equal(ids.take(), next);
      },
    ),
    500,
  );
});

it("JobIds completes an id below a multiple of 2^32 though the hint is above it already", () => {
  for (const multiple of [2 ** 32, 2 ** 33, 7 * 2 ** 32]) {
    const words = new Int32Array(new SharedArrayBuffer(8));
    const ids = new JobIds(words, 0);
    ids.reset(multiple - 5);
    // Stored by a thread that took later ids.
    words[1] = multiple / HINT_UNIT;
    assert.equal(ids.next, multiple - 5);
    assert.deepEqual([ids.lastSince(multiple - 5), ids.lastSince(multiple - 6)], [0, multiple - 6]);
    assert.equal(ids.take(), multiple - 5);
  }
});

it("JobIds gives each id once to two threads", () => {
  const words = new Int32Array(new SharedArrayBuffer(8));
  const [one, two] = [new JobIds(words, 0), new JobIds(words, 0)];
  one.reset(2 ** 32 - 2);
  const taken = [one.take(), two.take(), two.take(), one.take(), two.take()];
  assert.deepEqual(
    taken,
    [0, 1, 2, 3, 4].map((i) => 2 ** 32 - 2 + i),
  );
});

it("JobIds stays right over several times 2^32 while any thread takes the ids at which the hint grows", () => {
  const words = new Int32Array(new SharedArrayBuffer(8));
  const ids = new JobIds(words, 0);
  ids.reset(HINT_UNIT);
  for (let unit = 1; unit <= 700; unit++) {
    assert.equal(ids.next, unit * HINT_UNIT);
    assert.equal(ids.take(), unit * HINT_UNIT);
    // Other threads take all up to the next one.
    Atomics.add(words, 0, HINT_UNIT - 1);
  }
});

it("JobIds refuses an invalid start", () => {
  for (const bad of [0, -1, 2 ** 53]) assert.throws(() => idsFrom(bad), /ids are positive safe integers/);
});
