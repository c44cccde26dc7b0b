import assert from "node:assert/strict";
import { test } from "node:test";
import { hasPaused, Lease, LeaseWord } from "../../../src/ring/monotonic-clock.ts";

const DAY_MS = 86_400_000;
/** Wall clock, ms. */
const WALL_MS = Date.UTC(2026, 0, 1);

function lease() {
  const clock = { wallMs: WALL_MS };
  const words = new Int32Array(new SharedArrayBuffer(8));
  return { clock, lease: new Lease(words, 0, 1, () => clock.wallMs) };
}

test("a lease is over at its end, also after 25 days, when the word has wrapped", () => {
  for (const nowMs of [1000, 24.8 * DAY_MS, 25 * DAY_MS, 50 * DAY_MS, 400 * DAY_MS]) {
    const word = new LeaseWord(new Int32Array(1), 0);
    word.publish(nowMs + 3000);
    assert.equal(word.isOver(nowMs + 2998), false);
    assert.equal(word.isOver(nowMs + 3000), true, "to the millisecond");
    assert.equal(word.isOver(nowMs + 3001), true);
  }
});

test("a lease is over by the wall clock even if the monotonic clock stood still", () => {
  const { clock, lease: each } = lease();
  each.publish(5000, WALL_MS + 3000);
  assert.equal(each.isOver(2000), false);
  clock.wallMs += 10_000;
  assert.equal(each.isOver(2001), true, "the machine was suspended for ten seconds");
  each.publish(5001, clock.wallMs + 3000);
  assert.equal(each.isOver(2002), false, "what was sent after that renews it");
});

test("a wall clock that is set back or corrected a little ends no lease", () => {
  const { clock, lease: each } = lease();
  each.publish(5000, WALL_MS + 3000);
  clock.wallMs += 3200;
  assert.equal(each.isOver(4999), false);
  clock.wallMs -= 3_600_000;
  assert.equal(each.isOver(4999), false);
  assert.equal(each.isOver(5000), true, "the monotonic clock counts all the same");
});

test("a pause is a wall clock that went on alone", () => {
  assert.equal(hasPaused(1000, 1000), false);
  assert.equal(hasPaused(1100, 1000), false);
  assert.equal(hasPaused(1250, 1000), false, "as far as a correction may go");
  assert.equal(hasPaused(1251, 1000), true);
  assert.equal(hasPaused(2000, 1000), true);
  assert.equal(hasPaused(1000, 2000), false);
});
