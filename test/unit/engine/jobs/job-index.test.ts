import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { JobIndex, SortedNumbers } from "../../../../src/engine/jobs/job-index.ts";
import { NO_SLOT } from "../../../../src/engine/jobs/job-table.ts";
import { memoryInUse } from "../../../support/machine/memory-in-use.ts";
import { checkProperty, printSeed, seed } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

const id = fc.oneof(
  fc.integer({ min: 4090, max: 4102 }),
  fc.integer({ min: 1, max: 20_000 }),
  fc.integer({ min: 2 ** 32 - 3, max: 2 ** 32 + 3 }),
  fc.integer({ min: Number.MAX_SAFE_INTEGER - 2, max: Number.MAX_SAFE_INTEGER }),
);
const step = fc.record({ act: fc.constantFrom("set", "set", "delete", "get"), id, slot: fc.nat(1000) });

it("JobIndex matches a Map, also for ids over pages and beyond 32 bits", (t) => {
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

it("JobIndex matches a Map while pages fill and empty in any order", (t) => {
  const random = new SeededRandom(seed);
  printSeed(t);
  const index = new JobIndex();
  const map = new Map<number, number>();
  const ids = Array.from({ length: 3 * 4096 }, (_, i) => i + 1);
  for (let round = 0; round < 4; round++) {
    // In order, as puts are, or in any, as a log may tell.
    const added = round % 2 === 0 ? ids : shuffled(ids);
    for (const id of added) {
      index.set(id, id % 1000);
      map.set(id, id % 1000);
      if (id % 61 === 0) check(random.between(0, 3 * 4096));
    }
    for (const id of shuffled(ids)) {
      index.delete(id);
      map.delete(id);
      if (id % 61 === 0 || map.size < 10) check(random.between(0, 3 * 4096));
    }
    for (const id of ids) check(id);
  }
  function shuffled(all: readonly number[]): number[] {
    return all
      .map((id) => ({ id, place: random.next() }))
      .sort((a, b) => a.place - b.place)
      .map(({ id }) => id);
  }
  function check(id: number): void {
    assert.equal(index.get(id), map.get(id) ?? NO_SLOT);
  }
});

it("JobIndex keeps one job of every 4,096 in a few hundred bytes, and 64 in less than 300 each", () => {
  assert.ok(bytesOfSurvivors(1) < 600, `${bytesOfSurvivors(1)} bytes for one`);
  assert.ok(bytesOfSurvivors(64) < 64 * 300, `${bytesOfSurvivors(64)} bytes for 64`);
});

/**
 * Bytes for each page of 4,096 ids that all had a job, and whose first `survivors` still have one.
 */
function bytesOfSurvivors(survivors: number): number {
  const pages = 200;
  const index = new JobIndex();
  const before = memoryInUse();
  for (let page = 0; page < pages; page++) {
    for (let id = page * 4096; id < (page + 1) * 4096; id++) index.set(id, id & 1023);
    for (let id = page * 4096 + survivors; id < (page + 1) * 4096; id++) index.delete(id);
  }
  const bytes = memoryInUse() - before;
  assert.equal(index.get(4096 * 5), 0);
  assert.equal(index.get(4096 * 5 + survivors), NO_SLOT);
  return bytes / pages;
}

it("JobIndex walks upwards in any steps and knows its highest id, like a sorted list", (t) => {
  checkProperty(
    t,
    fc.property(
      fc.array(step, { maxLength: 200 }),
      fc.array(fc.integer({ min: 1, max: 3000 }), { minLength: 1, maxLength: 10 }),
      id,
      id,
      (steps, looks, afterId, lastId) => {
        const index = new JobIndex();
        const map = new Map<number, number>();
        for (const each of steps) {
          if (each.act === "delete") {
            index.delete(each.id);
            map.delete(each.id);
          } else {
            index.set(each.id, each.slot);
            map.set(each.id, each.slot);
          }
        }
        const ids = [...map.keys()].sort((a, b) => a - b);
        assert.equal(index.highestId, ids.at(-1) ?? 0);
        const expected = ids.filter((each) => each > afterId && each <= lastId);
        const found: [id: number, slot: number][] = [];
        const place = { id: afterId, looksLeft: 0 };
        for (let round = 0; place.id < lastId; round++) {
          assert.ok(round < 40_000, "it comes to its end");
          place.looksLeft = looks[round % looks.length]!;
          for (let slot = index.next(place, lastId); slot !== NO_SLOT; slot = index.next(place, lastId))
            found.push([place.id, slot]);
          assert.ok(place.looksLeft >= 0, "no more ids are looked at than allowed");
        }
        assert.deepEqual(
          found,
          expected.map((each) => [each, map.get(each)]),
        );
      },
    ),
    200,
  );
});

// Tests of the numbers beside a map: what a walk costs behind many removed keys.

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
