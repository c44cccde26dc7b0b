import assert from "node:assert/strict";
import { test } from "node:test";
import { HeldBatches } from "../../../src/replica/primary-node.ts";

const batch = (n: number, record: number, idsLent = 0) => ({
  n,
  numbers: Float64Array.of(record),
  idsLent,
});

test("batches are released up to the last one that a standby has", () => {
  const held = new HeldBatches();
  for (const n of [5, 6, 7]) held.hold(batch(n, n * 10));
  assert.equal(held.release(4), undefined);
  assert.throws(() => held.release(Number.NaN), /NaN would release all/);
  assert.equal(held.release(6)?.numbers[0], 60);
  assert.equal(held.release(6), undefined);
  assert.equal(held.release(100)?.n, 7);
  assert.equal(held.count, 0);
});

test("days without a standby hold few batches, and the first is released as early as before", () => {
  const held = new HeldBatches();
  held.hold(batch(1, 1));
  for (let n = 2; n < 100_000; n++) held.hold(batch(n, 1));
  assert.equal(held.count, 1, "empty ones are not held");
  for (let n = 100_000; n < 300_000; n++) held.hold(batch(n, n));
  assert.ok(held.count < 2000, `${held.count} are held`);
  assert.equal(held.release(1)?.numbers[0], 1);
  assert.equal(held.release(100_000)?.numbers[0], 100_000);
  assert.equal(
    held.release(299_998)?.numbers[0] ?? 0,
    101_021,
    "what is released together waits for the last of it",
  );
  assert.equal(held.release(299_999)?.numbers[0], 299_999);
});

test("a batch that only lends ids is held, too", () => {
  const held = new HeldBatches();
  held.hold(batch(1, 1, 100));
  held.hold(batch(2, 1, 200));
  assert.equal(held.release(2)?.idsLent, 200);
});
