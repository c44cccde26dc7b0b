// Tests of the scale scenario: the fit and the predictions with made-up figures, lists of cores,
// and a small run from end to end.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { WorkerLoad } from "../load/worker-load.ts";
import { coresIn, usableCores } from "./cores.ts";
import { idRate } from "./id-rate.ts";
import { scaleOptions } from "./scale-bench.ts";
import { costOf, fitCosts, hottestShare, predict, type Resources } from "./scale-model.ts";
import { modelOf, pointsOf, type ScaleRow } from "./scale-plan.ts";
import { type ScaleFigures, scaleRun } from "./scale-run.ts";
import { missOf, scaleText } from "./scale-table.ts";
import { timesBetween } from "./thread-times.ts";

const COSTS = { own: 4, crossing: 0.5, sleep: 20, crowd: 0.7 };
const SEEN = [
  { crossed: 0, sleeps: 0.05, crowd: 0 },
  { crossed: 2, sleeps: 0.05, crowd: 1 },
  { crossed: 1, sleeps: 0.2, crowd: 0 },
  { crossed: 0.5, sleeps: 0.1, crowd: 3 },
  { crossed: 2, sleeps: 0.3, crowd: 7 },
];

describe("fitCosts", () => {
  it("finds the costs that made the figures", () => {
    const found = fitCosts(SEEN.map((row) => ({ ...row, cpu: costOf(COSTS, row) })));
    for (const name of ["own", "crossing", "sleep", "crowd"] as const)
      assert.ok(Math.abs(found[name] - COSTS[name]) < 1e-6, `${name}: ${found[name]}`);
  });

  it("finds no cost below zero", () => {
    const odd = { ...COSTS, crossing: -1 };
    const found = fitCosts(SEEN.map((row) => ({ ...row, cpu: costOf(odd, row) })));
    assert.equal(found.crossing, 0);
    assert.ok(found.own > 0 && found.sleep >= 0);
  });

  it("takes one row for what a command costs, and none for a mistake", () => {
    const one = fitCosts([{ cpu: 4, crossed: 0, sleeps: 0, crowd: 0 }]);
    assert.deepEqual(one, { own: 4, crossing: 0, sleep: 0, crowd: 0 });
    assert.throws(() => fitCosts([]), /nothing to fit/);
  });
});

describe("predict", () => {
  const plenty: Resources = {
    ...{ cores: 8, threads: 8, cpu: 5, helpers: 0, generator: 0, generatorThreads: 0 },
    ...{ shard: 1, hottest: 1 / 8, idsPerSecond: 1e8, ids: 1 / 3 },
  };
  const limits = [
    ["cores", {}, 1_600_000],
    ["cores", { generator: 3 }, 1_000_000],
    ["threads", { threads: 4 }, 800_000],
    ["hottest shard", { hottest: 1 }, 1_000_000],
    ["job ids", { idsPerSecond: 300_000 }, 900_000],
    ["generator", { generator: 2, generatorThreads: 1 }, 500_000],
  ] as const;
  for (const [limit, change, commandsPerSecond] of limits)
    it(`names what is used up first: ${limit}, ${JSON.stringify(change)}`, () => {
      const found = predict({ ...plenty, generatorThreads: 8, ...change });
      assert.equal(found.limit, limit);
      assert.ok(
        Math.abs(found.commandsPerSecond / commandsPerSecond - 1) < 1e-9,
        `${found.commandsPerSecond}`,
      );
    });

  it("knows the share of the hottest shard from the tubes' names", () => {
    assert.equal(hottestShare(1, 16), 1);
    assert.equal(hottestShare(16, 1), 1);
    const share = hottestShare(1000, 4);
    assert.ok(share >= 0.25 && share < 0.3, `${share}`);
  });
});

describe("the plan", () => {
  it("has each number of threads in both placements, and fewer cores only where they can be kept", () => {
    const all = pointsOf([1, 2, 4], 4, true);
    assert.equal(all.length, 2 * 2 * 3 + 2);
    assert.deepEqual(
      all.filter(({ cores }) => cores < 4).map(({ cores, threads }) => [cores, threads]),
      [
        [1, 1],
        [2, 2],
      ],
    );
    assert.equal(pointsOf([1, 2, 4], 4, false).length, 12);
  });

  it("predicts what was measured where the figures follow the model", () => {
    const rows = pointsOf([1, 2], 2, false).map((point, index): ScaleRow => {
      const crowd = point.placement === "apart" && point.threads === 2 ? 1 : 0;
      const seen = SEEN[index % SEEN.length]!;
      const cpu = costOf(COSTS, { ...seen, crowd });
      const none = { helpers: 0, turns: 0, taken: 0, wakes: 0, moves: 0, busiest: cpu };
      const figures: ScaleFigures = {
        ...{ ...none, ...seen, cpu, commandsPerSecond: 2e6 / (cpu + 2), acceptors: cpu - 1, shards: 1 },
        generator: 2,
      };
      return { point, figures };
    });
    const machine = { cores: 2, generatorThreads: 1, idsPerSecond: 1e8 };
    const model = modelOf(rows, machine);
    assert.ok(missOf(model, "cpu") < 1e-6);
    assert.ok(missOf(model, "rate") < 0.01, `${missOf(model, "rate")}`);
    const one = model.predictions.filter(({ tubes }) => tubes === 1);
    assert.equal(one.at(-1)!.limit, "hottest shard");
    assert.equal(one.at(-1)!.commandsPerSecond, 1e6);
    assert.match(scaleText(model, machine), /PREDICTION/);
  });

  it("takes whole numbers of threads, up to what the server takes", () => {
    assert.deepEqual(scaleOptions("x", ["--scenario", "scale", "--threads", "1,3"]).threads, [1, 3]);
    assert.throws(() => scaleOptions("x", ["--threads", "17"]), /17 is no number of threads/);
  });
});

it("coresIn reads a list of the kernel's", () => assert.deepEqual(coresIn("0-2,5\n"), [0, 1, 2, 5]));

it("timesBetween counts a new thread from zero and leaves out an ended one", () => {
  const thread = (tid: number, cpuSeconds: number) => ({ tid, name: "", cpuSeconds });
  const found = timesBetween([thread(1, 2), thread(2, 7)], [thread(1, 5), thread(3, 4)]);
  assert.deepEqual(
    found.map(({ tid, cpuSeconds }) => [tid, cpuSeconds]),
    [
      [1, 3],
      [3, 4],
    ],
  );
});

it("idRate: several threads take ids, and all of them end", async () => {
  const rate = await idRate(2, 20);
  assert.ok(rate > 1000, `${rate}`);
});

it("scaleRun measures a small load from end to end", async (t) => {
  const load = new WorkerLoad(1);
  t.after(() => load.close());
  const small = { connections: 4, seconds: 1, warmCommands: 300 };
  const cores = usableCores().length;
  const apart = await scaleRun({ placement: "apart", threads: 2, tubes: 4, cores }, small, load);
  assert.ok(apart.commandsPerSecond > 0 && apart.cpu > 0 && apart.shards > 0 && apart.generator > 0);
  assert.ok(apart.crossed > 1.9 && apart.crossed < 4, `a request and its answer: ${apart.crossed}`);
  const together = await scaleRun({ placement: "together", threads: 1, tubes: 1, cores }, small, load);
  assert.equal(together.crossed, 0);
  assert.equal(together.wakes, 0);
  assert.equal(together.shards, 0);
});
