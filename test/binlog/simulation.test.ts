// Test of the binlog simulation over a hundred seeds; for thousands: node test/binlog/simulate.ts
// --seeds 2000

import assert from "node:assert/strict";
import { test } from "node:test";
import { simulate } from "./simulation.ts";

const { SEED = "1" } = process.env;

test("acknowledged changes survive crashes, kills, faults and full disks in a hundred seeds", async () => {
  const first = Number(SEED);
  let recoveries = 0;
  let migrated = 0;
  let waits = 0;
  let backups = 0;
  for (let seed = first; seed < first + 100; seed++) {
    try {
      const result = await simulate(seed, 200);
      recoveries += result.recoveries;
      migrated += result.migrated;
      waits += result.waits;
      backups += result.backups;
    } catch (error) {
      throw new Error(`seed ${seed}; again: SEED=${seed} node --test test/binlog/simulation.test.ts`, {
        cause: error,
      });
    }
  }
  assert.ok(
    recoveries > 200 && migrated > 1000 && waits > 5 && backups > 100,
    "the simulation does what it is for",
  );
});
