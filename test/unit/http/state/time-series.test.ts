// Tests of the times of tubes: all series add up to the totals, and none ever falls.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { TimeSeries } from "../../../../src/http/state/time-series.ts";
import {
  type Distribution,
  MEASURED_TUBES_MAX,
  TUBE_BOUNDS_SECONDS,
  WAIT_BOUNDS_SECONDS,
} from "../../../../src/message/control.ts";
import { printSeed, seed } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

class Counted {
  readonly #bounds: readonly number[];
  readonly counts: number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = Array(bounds.length + 1).fill(0);
  }

  add(seconds: number): void {
    const at = this.#bounds.findIndex((bound) => seconds <= bound);
    this.counts[at < 0 ? this.#bounds.length : at]!++;
    this.sum += seconds;
  }

  get now(): Distribution {
    return { counts: [...this.counts], sum: this.sum };
  }
}

const SECONDS = [0.001, 0.003, 0.01, 0.02, 0.7, 9, 11, 61, 4000, 100_000];

describe("times of tubes", () => {
  it("are those of the first tubes with series", () => {
    const names = Array.from({ length: MEASURED_TUBES_MAX + 5 }, (_, at) => `t${at}`);
    assert.deepEqual(new TimeSeries().chosen(names), names.slice(0, MEASURED_TUBES_MAX));
  });

  it("add up to the totals and never fall, whichever tubes come and go", (t) => {
    printSeed(t);
    const random = new SeededRandom(seed);
    const series = new TimeSeries();
    const totals = new Counted(WAIT_BOUNDS_SECONDS);
    // What the shards keep: a tube that is measured again begins at 0.
    const measured = new Map<string, Counted>();
    let others: readonly number[] = Array(TUBE_BOUNDS_SECONDS.length + 1).fill(0);
    let gone = 0;
    for (let step = 0; step < 500; step++) {
      for (let job = random.below(5); job > 0; job--) {
        const seconds = SECONDS[random.below(SECONDS.length)]!;
        totals.add(seconds);
        measured.get(`t${random.below(6)}`)?.add(seconds);
      }
      const older = totals.now;
      const name = `t${random.below(6)}`;
      if (random.below(4) === 0) {
        // What it had since it was last seen is in the sum of the others.
        gone += series.last.get(name)?.wait.counts.reduce((sum, count) => sum + count, 0) ?? 0;
        measured.delete(name);
      } else if (!measured.has(name)) measured.set(name, new Counted(WAIT_BOUNDS_SECONDS));
      series.renew(
        new Map(Array.from(measured, ([tube, times]) => [tube, { wait: times.now, hold: times.now }])),
        step,
      );
      const shown = series.series({ wait: older, hold: older });
      const last = shown.at(-1)!;
      assert.equal(last.tube, "*");
      assert.ok(last.times.wait.counts.every((count, at) => count >= others[at]!));
      others = last.times.wait.counts;
      const sum = shown.flatMap(({ times }) => [...times.wait.counts]).reduce((all, count) => all + count, 0);
      assert.equal(
        sum + gone,
        older.counts.reduce((all, count) => all + count, 0),
      );
      assert.deepEqual(last.times.hold, last.times.wait);
    }
  });

  it("have quantiles of the last five to ten minutes, and forget a tube that is measured no more", () => {
    const MINUTE_MS = 60_000;
    const series = new TimeSeries();
    const [wait, hold] = [new Counted(WAIT_BOUNDS_SECONDS), new Counted(WAIT_BOUNDS_SECONDS)];
    const at = (minutes: number): ReturnType<TimeSeries["recent"]> => {
      series.renew(new Map([["mail", { wait: wait.now, hold: hold.now }]]), minutes * MINUTE_MS);
      return series.recent("mail");
    };
    assert.equal(series.recent("mail"), undefined);
    // What was counted before the first look is of no known time.
    wait.add(4000);
    const none = { count: 0, p50: null, p99: null };
    assert.deepEqual(at(0), { seconds: 0, wait: none, hold: none });
    for (let job = 0; job < 98; job++) wait.add(0.0005);
    wait.add(9);
    wait.add(9);
    const first = at(1)!;
    assert.equal(first.seconds, 60);
    assert.equal(first.wait.count, 100);
    assert.ok(first.wait.p50! <= 0.001, `${first.wait.p50}`);
    assert.ok(first.wait.p99! > 5 && first.wait.p99! <= 10, `${first.wait.p99}`);
    assert.deepEqual(first.hold, none);
    // The mark of minute 6 replaces the first one at minute 11.
    for (const minute of [6, 10]) assert.equal(at(minute)!.wait.count, 100);
    hold.add(70);
    const later = at(11)!;
    assert.deepEqual([later.seconds, later.wait.count, later.hold.count], [300, 0, 1]);
    series.renew(new Map(), 12 * MINUTE_MS);
    assert.equal(series.recent("mail"), undefined);
    assert.deepEqual(at(13), { seconds: 0, wait: none, hold: none });
  });
});
