import assert from "node:assert/strict";
import { it } from "node:test";
import { SyncHistory } from "../../../../src/http/state/stats-history.ts";
import { bucketQuantile } from "../../../../src/http/state/time-series.ts";
import { SYNC_BOUNDS_SECONDS } from "../../../../src/message/log-figures.ts";

/** Sums by bounds: so many syncs that took up to `le`, and what was before. */
function counted(before: readonly number[], syncs: Readonly<Record<number, number>>): number[] {
  return [...SYNC_BOUNDS_SECONDS, Number.POSITIVE_INFINITY].map(
    (le, bucket) => (before[bucket] ?? 0) + (syncs[le] ?? 0),
  );
}

it("a quantile is interpolated within its bucket, is the last bound above all, and null without values", () => {
  assert.equal(bucketQuantile([10, 0, 0], [1, 2], 0.5), 0.5);
  assert.equal(bucketQuantile([1, 0, 1, 0], [1, 2, 4], 0.75), 3);
  assert.equal(bucketQuantile([1, 0, 9], [1, 2], 0.99), 2);
  assert.equal(bucketQuantile([0, 0, 0], [1, 2], 0.5), null);
});

it("the history of syncs has count, median and 99 % quantile of each step", () => {
  const history = new SyncHistory();
  const first = counted([], { 0.001: 1000 });
  const second = counted(first, { 0.05: 100, 0.25: 100 });
  history.note(first, 10_000);
  assert.deepEqual(
    history.since(0),
    { syncs: [], p50: [], p99: [] },
    "what was before the first is not known",
  );
  history.note(second, 20_000);
  history.note(second, 30_000);
  assert.deepEqual(history.since(0), {
    syncs: [
      [20, 20],
      [30, 0],
    ],
    p50: [
      [20, 0.05],
      [30, null],
    ],
    p99: [
      [20, 0.1 + 0.15 * 0.98],
      [30, null],
    ],
  });
  assert.deepEqual(history.since(25_000).syncs, [[30, 0]]);
});

it("the history of syncs keeps an hour, and sums up its last minutes", () => {
  const history = new SyncHistory();
  let sums: number[] = counted([], {});
  for (let n = 0; n <= 1000; n++) {
    history.note(sums, n * 10_000);
    sums = counted(sums, n < 900 ? { 0.001: 10 } : { 0.25: 10 });
  }
  const { syncs } = history.since(0);
  assert.deepEqual([syncs.length, syncs[0], syncs.at(-1)], [360, [6410, 1], [10_000, 1]]);
  const { count, p99Seconds } = history.summary(10_000_000 - 300_000);
  assert.equal(count, 300);
  assert.ok(Math.abs(p99Seconds - 0.2485) < 1e-9, `${p99Seconds}`);
  assert.deepEqual(new SyncHistory().summary(0), { count: 0, p99Seconds: 0 });
});
