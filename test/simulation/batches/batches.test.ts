// Batches on random schedules with ends of the process at random moments.
//
// BATCH_SEEDS=2000 npm test -- simulation/batches

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import "../../support/checked.ts";
import { inWhole, skipVariant } from "../../support/whole.ts";
import { simulateBatches } from "./batch-simulation.ts";
import { PLANTED_BATCH_BUGS } from "./planted-bugs.ts";

const SEEDS = Number(process.env["BATCH_SEEDS"] ?? inWhole(12, 8));
const FIRST = Number(process.env["SEED"] ?? 1);
const STEPS = 300;
const PLANTED_SEEDS = 60;

describe("batches in a simulation", () => {
  it(`are complete when their last member has ended, in ${SEEDS} runs`, async () => {
    const sum = { restarts: 0, batches: 0, callbacks: 0 };
    for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
      const result = await simulateBatches({ seed, steps: STEPS });
      for (const key of Object.keys(sum) as (keyof typeof sum)[]) sum[key] += result[key];
    }
    for (let seed = FIRST; seed < FIRST + SEEDS; seed++)
      await simulateBatches({ seed, steps: STEPS, hops: true });
    if (SEEDS < 20) return;
    assert.ok(sum.restarts > SEEDS, `${sum.restarts} restarts`);
    assert.ok(sum.callbacks > SEEDS, `${sum.callbacks} callbacks`);
  });
});

describe("planted bugs", () => {
  for (const [index, { name, ...how }] of PLANTED_BATCH_BUGS.entries())
    it(`finds: ${name}`, { skip: skipVariant(index, 2) }, async () => {
      for (let seed = 1; seed <= PLANTED_SEEDS; seed++) {
        try {
          await simulateBatches({ seed, steps: STEPS, ...how });
        } catch {
          return;
        }
      }
      assert.fail(`not found in ${PLANTED_SEEDS} runs`);
    });
});
