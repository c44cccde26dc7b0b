// Tests of the history by the second and by the minute over longer than it lasts, against a list of
// all points.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ControlClient } from "../../../../src/http/link/control-client.ts";
import { StatsHistory, SyncHistory } from "../../../../src/http/state/stats-history.ts";
import { bucketQuantile } from "../../../../src/http/state/time-series.ts";
import type { ShardTotals } from "../../../../src/message/control.ts";
import { SYNC_BOUNDS_SECONDS } from "../../../../src/message/log-figures.ts";

const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;
const START_S = 1_700_000_000;

interface Point {
  readonly atS: number;
  readonly ready: number;
  readonly puts: number;
}

/** A server that is asked at moments, and all that it has said. */
class AskedServer {
  readonly points: Point[] = [];
  #atS = START_S;
  readonly book = new StatsHistory(
    { askAll: async () => [this.#totals()] } as unknown as ControlClient,
    () => this.#atS * 1000,
  );

  /** Puts so far: more of them in each second than in the one before. */
  #totals(): ShardTotals {
    const second = this.#atS - START_S;
    const ready = (second * 7) % 1000;
    const puts = (second * (second + 1)) / 2;
    this.points.push({ atS: this.#atS, ready, puts });
    const jobs = { ready, reserved: 1, delayed: 2, buried: 3 };
    return {
      jobs,
      waiting: 4,
      puts,
      reserves: 5,
      deletes: 6,
      releases: 7,
      buries: 8,
      kicks: 9,
      timeouts: 10,
    } as unknown as ShardTotals;
  }

  async askFor(seconds: number, stepS: number): Promise<void> {
    for (const endS = this.#atS + seconds; this.#atS < endS; ) {
      this.#atS += stepS;
      await this.book.ask();
    }
  }

  /** Expected history: every `stepS`-th point of the last so many seconds. */
  expected(seconds: number, of: "ready" | "puts", pointsMax: number): [number, number][] {
    return this.points
      .slice(-pointsMax)
      .filter(({ atS }) => atS >= this.#atS - seconds)
      .map((point) => [point.atS, point[of]]);
  }
}

describe("TotalsBook", () => {
  it("keeps the last hour by the second, however long it has run", async () => {
    const server = new AskedServer();
    for (const runsS of [10, HOUR_S - 11, 1, 1, 1, 500, HOUR_S, 2 * HOUR_S + 17]) {
      await server.askFor(runsS, 1);
      for (const seconds of [1, 60, HOUR_S - 1, HOUR_S]) {
        const { step, series } = server.book.history(seconds, ["ready", "puts"]);
        assert.equal(step, 1);
        assert.deepEqual(series["ready"], server.expected(seconds, "ready", HOUR_S));
        assert.deepEqual(series["puts"], server.expected(seconds, "puts", HOUR_S));
        const known = server.expected(seconds, "puts", HOUR_S);
        assert.equal(server.book.grown(seconds, "puts"), known.at(-1)![1] - known[0]![1], `in ${seconds} s`);
      }
    }
  });

  it("keeps the last day by the minute, however long it has run", async () => {
    const server = new AskedServer();
    for (const runsS of [HOUR_S, DAY_S - HOUR_S - 60, 60, 60, 60, DAY_S, 2 * DAY_S + 1020]) {
      await server.askFor(runsS, 60);
      for (const seconds of [HOUR_S + 1, DAY_S / 2, DAY_S]) {
        const { step, series } = server.book.history(seconds, ["puts"]);
        assert.equal(step, 60);
        assert.deepEqual(series["puts"], server.expected(seconds, "puts", DAY_S / 60));
      }
    }
  });

  it("takes a point a minute for the day when polled each second", async () => {
    const server = new AskedServer();
    await server.askFor(3 * HOUR_S, 1);
    const { series } = server.book.history(DAY_S, ["puts"]);
    const times = series["puts"]!.map(([atS]) => atS);
    assert.equal(times.length, 180);
    for (const [index, atS] of times.entries()) if (index > 0) assert.equal(atS - times[index - 1]!, 60);
  });

  it("fetches once for several concurrent requests", async () => {
    const server = new AskedServer();
    await Promise.all([server.book.ask(), server.book.ask(), server.book.ask()]);
    assert.equal(server.points.length, 1);
    await server.book.ask();
    assert.equal(server.points.length, 2);
  });
});

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
