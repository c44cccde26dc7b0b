// Test of the binlog simulation over some dozen seeds; for thousands: node test/binlog/simulate.ts
// --seeds 2000

import assert from "node:assert/strict";
import { test } from "node:test";
import { inWhole } from "../support/whole.ts";
import { simulate } from "./simulation.ts";

const { SEED = "1" } = process.env;
const SEEDS = inWhole(100, 60);

test(`acknowledged changes survive crashes, kills, faults and full disks in ${SEEDS} seeds`, async () => {
  const first = Number(SEED);
  let recoveries = 0;
  let migrated = 0;
  let waits = 0;
  let backups = 0;
  for (let seed = first; seed < first + SEEDS; seed++) {
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
    recoveries > 2 * SEEDS && migrated > 10 * SEEDS && waits > SEEDS / 20 && backups > SEEDS,
    "the simulation does what it is for",
  );
});
