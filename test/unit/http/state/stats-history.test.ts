// Tests of the history by the second and by the minute over longer than it lasts, against a list of
// all points.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ControlClient } from "../../../../src/http/link/control-client.ts";
import { StatsHistory } from "../../../../src/http/state/stats-history.ts";
import type { ShardTotals } from "../../../../src/message/control.ts";

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
