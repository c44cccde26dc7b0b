// Tests of the selection of tubes with series, and that the sum of the others never falls.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SeriesSet } from "../../../../src/http/state/time-series.ts";
import { TubeEntry } from "../../../../src/http/state/tube-cache.ts";
import { TUBE_COUNTERS, TUBE_FIELDS, type TubeCounter, TubeField } from "../../../../src/schema/tube.ts";
import { printSeed, seed } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

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
