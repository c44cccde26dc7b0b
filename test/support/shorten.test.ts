// Tests of the fuzzers' and the simulation's shrinker on known failures.

import assert from "node:assert/strict";
import { test } from "node:test";
import { asyncProperty, assert as fastCheckAssert, subarray } from "fast-check";
import { shorten } from "./shorten.ts";

const ALL = Array.from({ length: 60 }, (_, index) => index);

test("shorten finds exactly the units that a failure needs, in order", async () => {
  const needed = subarray(ALL, { minLength: 1, maxLength: 6 });
  await fastCheckAssert(
    asyncProperty(needed, async (units) => {
      const fails = async (left: readonly number[]): Promise<boolean> =>
        units.every((unit) => left.includes(unit));
      assert.deepEqual(await shorten(ALL, fails), units);
    }),
    { seed: 1, numRuns: 50 },
  );
});

test("shorten leaves no unit that could be removed alone, if several lists fail", async () => {
  const fails = async (left: readonly number[]): Promise<boolean> =>
    left.length % 2 === 0 && left.includes(17) && left.some((unit) => unit > 40);
  const shortest = await shorten(ALL, fails);
  assert.ok(await fails(shortest));
  for (const unit of shortest) assert.ok(!(await fails(shortest.filter((other) => other !== unit))));
});

test("shorten needs few tries, and none for a list of one", async () => {
  let tries = 0;
  const found = await shorten(
    Array.from({ length: 4096 }, (_, index) => index),
    async (left) => {
      tries++;
      return left.includes(3000);
    },
  );
  assert.deepEqual(found, [3000]);
  assert.ok(tries < 50, `${tries} tries`);
  assert.deepEqual(await shorten([1], () => assert.fail("tried the empty list")), [1]);
});

test("shorten ends with what the judge throws", async () => {
  await assert.rejects(
    shorten(ALL, () => Promise.reject(new Error("no time left"))),
    /no time left/,
  );
});
