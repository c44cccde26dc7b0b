// Runs the simulation over a few dozen seeds, and proves with planted bugs that it would find what it looks for.
// Thousands of seeds: npm run simulate -- --runs 5000

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { seed } from "../support/seeded-property.ts";
import { PLANTED_BUGS } from "./planted-bugs.ts";
import { simulate } from "./simulation.ts";

const RUNS = 60;
const STEPS = 300;
/** A planted bug must be found within so many seeds. */
const CANARY_RUNS = 60;

describe("simulation", () => {
  it(`finds nothing in ${RUNS} seeds`, (t) => {
    t.diagnostic(`seeds ${seed} to ${seed + RUNS - 1}`);
    for (let each = seed; each < seed + RUNS; each++) {
      try {
        const { commands } = simulate({ seed: each, steps: STEPS });
        assert.ok(commands > 0);
      } catch (error) {
        assert.fail(`${error}\nagain: npm run simulate -- --seed ${each} --steps ${STEPS}`);
      }
    }
  });

  it("gives the same run for the same seed", () => {
    assert.deepEqual(simulate({ seed: 42, steps: STEPS }), simulate({ seed: 42, steps: STEPS }));
  });
});

describe("simulation with a planted bug (canary)", () => {
  for (const { name, options } of PLANTED_BUGS) {
    it(`finds that ${name}`, (t) => {
      for (let each = 1; each <= CANARY_RUNS; each++) {
        try {
          simulate({ seed: each, steps: STEPS, ...options });
        } catch (error) {
          const [what] = String(error)
            .replace(/^Error: /, "")
            .split("\n");
          t.diagnostic(`found at seed ${each}: ${what}`);
          return;
        }
      }
      assert.fail(`not found in ${CANARY_RUNS} seeds`);
    });
  }
});
