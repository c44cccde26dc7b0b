import assert from "node:assert/strict";
import { test } from "node:test";
import { runGuarded, type SeedRun } from "./guarded-run.ts";

const RUN: SeedRun = { firstSeed: 7, count: 1, steps: 10, only: undefined, shrink: false };

test("runGuarded ends an endless simulation, and names its seed and step", async () => {
  const { exitCode, aborted } = await runGuarded(
    { ...RUN, fault: "circle" },
    { stepMsMax: 1000, heapMebibytesMax: 500 },
  );
  assert.equal(exitCode, 1);
  assert.deepEqual([aborted?.seed, aborted?.step], [7, 3]);
  assert.match(aborted!.why, /circle/);
});

test("runGuarded ends a simulation that keeps taking memory, and names its seed and step", async () => {
  const { exitCode, aborted } = await runGuarded(
    { ...RUN, fault: "memory" },
    { stepMsMax: 60_000, heapMebibytesMax: 100 },
  );
  assert.equal(exitCode, 1);
  assert.deepEqual([aborted?.seed, aborted?.step], [7, 3]);
  assert.match(aborted!.why, /100 MiB of memory/);
});

test("runGuarded lets a clean simulation end by itself", async () => {
  assert.deepEqual(await runGuarded(RUN), { exitCode: 0 });
});
