// Tests of the case selection: some cases run only when they are named.
import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { test } from "node:test";
import type { BenchOptions } from "../options.ts";
import { coldNote, selectCases } from "./select-cases.ts";

const selected = (options: Partial<BenchOptions>) =>
  selectCases({ quick: false, profile: false, ...options } as BenchOptions);

test("selectCases: standing takes 1 M jobs and a minute by default", () => {
  const [usual] = selected({ scenario: ["standing"] });
  assert.equal(usual!.workload!.jobs, 1_000_000);
  assert.equal(usual!.workload!.seconds, 60);
  assert.equal(usual!.headline, "p999");
  const [small] = selected({ scenario: ["standing"], jobs: 1000, seconds: 2 });
  assert.equal(small!.workload!.jobs, 1000);
  assert.equal(small!.workload!.seconds, 2);
});

test("coldNote: says that a quick run measures servers that have just started", () => {
  const noteOf = (options: Partial<BenchOptions>) => coldNote(options as BenchOptions);
  assert.match(noteOf({ quick: true })!, /npm run bench measures warm servers/);
  assert.match(noteOf({ quick: false, seconds: 1 })!, /V8 still compiles/);
  assert.equal(noteOf({ quick: false }), undefined);
  assert.equal(noteOf({ quick: true, warmup: 2 }), undefined);
});

test("selectCases: threads and p99-at-80 run only by name", () => {
  const threads = selected({ scenario: ["threads"] });
  assert.deepEqual(
    threads.map(({ workload }) => `${workload!.connections}x${workload!.pipeline}`),
    ["50x1", "50x16"],
  );
  for (const { variants } of threads) assert.equal(variants!.flags.length, 9);
  assert.equal(selected({ scenario: ["p99-at-80"] })[0]!.headline, "p99");
  const groups = selected({ scenario: ["default", "quick", "all"] }).map(({ group }) => group);
  for (const group of ["threads", "standing", "p99-at-80", "backlog", "bulk", "batch"])
    assert.ok(!groups.includes(group), group);
  assert.throws(() => selected({ scenario: ["no-such"] }), /Unknown scenario no-such.*threads/);
});

test("selectCases: placement has the readme's cases with a goal, each with its ratios", () => {
  const placement = selected({ scenario: ["placement"] });
  const readme = new Set(selected({ scenario: ["readme"] }).map(({ key }) => key));
  assert.equal(placement.length, 23);
  for (const { key, goal } of placement) {
    assert.ok(readme.has(key), key);
    assert.equal(goal!.needed.length, goal!.aim.length, key);
    goal!.needed.forEach((needed, index) => {
      assert.ok(needed <= goal!.aim[index]!, key);
    });
  }
  assert.equal(new Set(placement.map(({ key }) => key)).size, 23);
  assert.equal(placement.filter(({ busyLoops }) => busyLoops !== undefined).length, 5);
});

test("selectCases: each case of the readme can be named by its key", () => {
  for (const { key } of selected({ scenario: ["readme"] }))
    assert.deepEqual(
      selected({ scenario: [key] }).map((each) => each.key),
      [key],
    );
});

test("selectCases: --burn loads every case that isn't loaded yet, and the names say so", () => {
  const loops = availableParallelism() + 1;
  const cases = selected({ scenario: ["placement"], burn: loops });
  const [plain, busy] = cases;
  assert.equal(plain!.key, `put-reserve-delete-50x1-64b-burn${loops}`);
  assert.match(plain!.title, new RegExp(`, beside ${loops} busy loops$`));
  assert.equal(plain!.busyLoops, loops);
  assert.equal(busy!.key, "put-reserve-delete-50x1-64b-busy");
  assert.equal(busy!.busyLoops, availableParallelism());
  assert.equal(selected({ scenario: ["busy"] })[0]!.key, busy!.key);
});
