// Tests of a group on virtual time: some seeds, and each planted bug must be found. More: npm run
// simulate:replica -- --seeds 3000.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findOf } from "../support/planted-find.ts";
import { inWhole, skipVariant } from "../support/whole.ts";
import { CHECKS } from "./faulty-log.ts";
import { BUGS, type Bug } from "./planted-bugs.ts";
import { simulateGroup } from "./simulation.ts";

const SEEDS = inWhole(6, 4);
/** Seeds that last found the bugs that the first ten miss. */
const FOUND_AT: Partial<Record<Bug, number>> = {
  "any sequence is taken for an ack": 20,
  "a segment is taken to begin where reading began": 16,
};
const SEEDS_MAX = 10;

describe("a simulated group", () => {
  for (const check of CHECKS) {
    it(`loses nothing in ${SEEDS} seeds with a log whose sequence check is ${check}`, async (t) => {
      let [acknowledged, leads] = [0, 0];
      for (let seed = 1; seed <= SEEDS; seed++) {
        try {
          const result = await simulateGroup({ seed, check });
          acknowledged += result.acknowledged;
          leads += result.leads;
        } catch (error) {
          assert.fail(`${error}\nagain: npm run simulate:replica -- --seed ${seed} --check ${check}`);
        }
      }
      t.diagnostic(`${acknowledged} puts acknowledged, ${leads} leads`);
      assert.ok(acknowledged > 10 * SEEDS && leads > 2 * SEEDS, "there was enough to say something");
    });
  }

  for (const [index, bug] of BUGS.entries()) {
    it(`finds that ${bug}`, { skip: skipVariant(index, 2) }, async (t) => {
      const first = FOUND_AT[bug] ?? 1;
      for (let seed = first; seed < first + SEEDS_MAX; seed++) {
        try {
          await simulateGroup({ seed, bug });
        } catch (error) {
          t.diagnostic(`seed ${seed}: ${findOf(error)}`);
          return;
        }
      }
      assert.fail(`not found in ${SEEDS_MAX} seeds`);
    });
  }
});
