// Tests of the times of tubes: all series add up to the totals, and none ever falls.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SeriesSet, TimeSeries } from "../../../../src/http/state/time-series.ts";
import { TubeEntry } from "../../../../src/http/state/tube-cache.ts";
import {
  type Distribution,
  MEASURED_TUBES_MAX,
  TUBE_BOUNDS_SECONDS,
  WAIT_BOUNDS_SECONDS,
} from "../../../../src/message/control.ts";
import { TUBE_COUNTERS, TUBE_FIELDS, type TubeCounter, TubeField } from "../../../../src/schema/tube.ts";
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

// Tests of the selection of tubes with series, and that the sum of the others never falls.

const MINUTE_MS = 60_000;

function tube(name: string, sequence: number, puts: number): TubeEntry {
  const row = new Float64Array(TUBE_FIELDS);
  row[TubeField.sequence] = sequence;
  row[TubeField.puts] = puts;
  return new TubeEntry(name, 0, row, 0);
}

const table = (...tubes: TubeEntry[]): Map<string, TubeEntry> =>
  new Map(tubes.map((each) => [each.name, each]));

const totals = (puts: number): Record<TubeCounter, number> =>
  ({ ...Object.fromEntries(TUBE_COUNTERS.map((name) => [name, 0])), puts }) as Record<TubeCounter, number>;

describe("series of tubes", () => {
  it("go to the operator's tubes first, then to the oldest ones", () => {
    const set = new SeriesSet({ tubesMax: 2, tubes: ["mail-*"] });
    set.renew(table(tube("a", 1, 0), tube("b", 2, 0), tube("mail-eu", 3, 0)), 0);
    assert.deepEqual(
      ["a", "b", "mail-eu"].map((name) => set.has(name)),
      [true, false, true],
    );
  });

  it("stay with a tube while it exists, and five minutes longer", () => {
    const set = new SeriesSet({ tubesMax: 1, tubes: [] });
    set.renew(table(tube("a", 1, 0), tube("b", 2, 0)), 0);
    set.renew(table(tube("b", 2, 0)), 4 * MINUTE_MS);
    assert.ok(set.has("a") && !set.has("b"));
    set.renew(table(tube("b", 2, 0)), 6 * MINUTE_MS);
    assert.ok(!set.has("a") && set.has("b"));
  });

  it("leave a sum of the others that never falls and misses no put", (t) => {
    printSeed(t);
    const random = new SeededRandom(seed);
    const set = new SeriesSet({ tubesMax: 3, tubes: [] });
    const alive = new Map<string, { sequence: number; puts: number }>();
    /** Puts by name, over all tubes that had it, and what its series showed in the step before. */
    const done = new Map<string, number>();
    let told = new Map<string, { puts: number; done: number }>();
    let sequence = 0;
    let all = 0;
    let lastOthers = 0;
    for (let step = 0; step < 2000; step++) {
      const name = `t${random.below(6)}`;
      const known = alive.get(name);
      if (known !== undefined && random.below(5) === 0) alive.delete(name);
      else {
        const more = random.below(10);
        all += more;
        done.set(name, (done.get(name) ?? 0) + more);
        alive.set(name, { sequence: known?.sequence ?? ++sequence, puts: (known?.puts ?? 0) + more });
      }
      const tubes = table(...Array.from(alive, ([each, { sequence: made, puts }]) => tube(each, made, puts)));
      set.renew(tubes, step * MINUTE_MS);
      const shown = new Map<string, { puts: number; done: number }>();
      for (const [each, { puts }] of set.own()) shown.set(each, { puts, done: done.get(each)! });
      for (const [each, before] of told) {
        const now = shown.get(each);
        if (now === undefined) continue;
        const grown = now.puts - before.puts;
        assert.equal(grown, now.done - before.done, `step ${step}: the series of ${each}`);
      }
      told = shown;
      const { puts } = set.others(totals(all));
      assert.ok(puts >= lastOthers, `step ${step}: ${puts} after ${lastOthers}`);
      assert.ok(puts <= all, `step ${step}: ${puts} of ${all}`);
      lastOthers = puts;
    }
  });

  it("add up to the server's totals, and no series ever falls", (t) => {
    printSeed(t);
    const random = new SeededRandom(seed);
    const set = new SeriesSet({ tubesMax: 4, tubes: ["t1"] });
    const alive = new Map<string, { sequence: number; puts: number }>();
    let [sequence, all] = [0, 0];
    let told = new Map<string, number>();
    const change = (): void => {
      const name = `t${random.below(9)}`;
      const known = alive.get(name);
      if (known !== undefined && random.below(6) === 0) alive.delete(name);
      else {
        const more = random.below(10);
        all += more;
        alive.set(name, { sequence: known?.sequence ?? ++sequence, puts: (known?.puts ?? 0) + more });
      }
    };
    /**
     * A scrape within five minutes of the one before, so that no series ends; `between` is done
     * after the totals were asked.
     */
    const scrape = (step: number, between: () => void): number => {
      const before = all;
      between();
      const tubes = table(...Array.from(alive, ([each, { sequence: made, puts }]) => tube(each, made, puts)));
      set.renew(tubes, step);
      const shown = new Map(Array.from(set.own(), ([name, { puts }]) => [name, puts]));
      shown.set("*", set.others(totals(before)).puts);
      for (const [name, puts] of told)
        assert.ok(shown.get(name)! >= puts, `step ${step}: ${name} fell from ${puts} to ${shown.get(name)}`);
      told = shown;
      return [...shown.values()].reduce((sum, puts) => sum + puts, 0);
    };
    for (let step = 0; step < 2000; step++) {
      for (let changes = random.below(5); changes > 0; changes--) change();
      const sum = scrape(step, () => {
        for (let changes = random.below(3); changes > 0; changes--) change();
      });
      assert.ok(sum <= all, `step ${step}: all series have ${sum} of ${all}`);
      assert.equal(
        scrape(step, () => {}),
        all,
        `step ${step}: nothing is under way`,
      );
    }
    assert.equal(told.size, 5);
  });

  it("continue when a tube is recreated", () => {
    const set = new SeriesSet({ tubesMax: 1, tubes: [] });
    const puts = (): (number | undefined)[] => [set.own().get("a")?.puts];
    set.renew(table(tube("a", 1, 7), tube("b", 2, 1)), 0);
    assert.deepEqual(puts(), [7], "no other source has counted it before");
    set.renew(table(tube("a", 1, 9), tube("b", 2, 4)), 1);
    assert.equal(set.others(totals(13)).puts, 4);
    set.renew(table(tube("b", 2, 4)), 2);
    assert.deepEqual(puts(), [9], "it is gone, and keeps its series for a while");
    set.renew(table(tube("a", 3, 3), tube("b", 2, 4)), 3);
    assert.deepEqual(puts(), [12]);
    assert.equal(set.others(totals(16)).puts, 4);
    set.renew(table(tube("b", 2, 6)), 10 * MINUTE_MS);
    assert.equal(set.own().get("b")?.puts, 0, "what it did before is in the sum of the others");
    assert.equal(set.others(totals(18)).puts, 6);
  });

  it("count tubes without series in the sum of the others, whatever comes and goes", () => {
    const set = new SeriesSet({ tubesMax: 1, tubes: ["own"] });
    set.renew(table(tube("own", 2, 5), tube("b", 1, 10)), 0);
    assert.equal(set.others(totals(15)).puts, 10, "its earlier counts are in no other series yet");
    set.renew(table(tube("own", 2, 9), tube("b", 1, 13)), MINUTE_MS);
    assert.equal(set.others(totals(22)).puts, 13, "3 more of b, and nothing of the 4 more of its own");
    set.renew(table(tube("c", 3, 2)), 10 * MINUTE_MS);
    assert.equal(set.others(totals(24)).puts, 13, "nothing of c, which is young, and b is not forgotten");
  });

  it("begin at 0 for a tube that was the youngest one in the sum of the others", () => {
    const set = new SeriesSet({ tubesMax: 1, tubes: [] });
    set.renew(table(tube("a", 1, 5), tube("b", 2, 10)), 0);
    assert.equal(set.others(totals(15)).puts, 10);
    set.renew(table(tube("b", 2, 10)), 6 * MINUTE_MS);
    assert.deepEqual(
      [...set.own()].map(([name, { puts }]) => [name, puts]),
      [["b", 0]],
    );
    assert.equal(set.others(totals(15)).puts, 10, "its earlier counts stay in the sum");
  });
});
