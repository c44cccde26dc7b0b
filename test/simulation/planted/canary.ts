// Proves the sensitivity of the simulation: each planted bug is found, at a seed that finds nothing
// without it.

import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { findOf } from "../../support/planted-find.ts";
import { skipVariant } from "../../support/whole.ts";
import { simulate } from "../simulation.ts";
import type { SimulationOptions } from "../simulation-state.ts";
import type { PlantedBug } from "./planted-bug.ts";

const STEPS = 300;
/** A planted bug must be found within so many seeds: half a minute. */
const SEEDS_MAX = 100;
/** A find at a later one is noted, because the search begins with it the next time. */
const TRIED_MAX = 5;

/**
 * Tests that each bug is found, at the seed in `foundLast` or from 1 on. Where clients draw
 * something else than before, that takes longer, but nothing is skipped. Bugs that would come too
 * seldom have further options in `drawn`.
 */
export function findsPlanted(
  what: string,
  bugs: readonly PlantedBug[],
  foundLast: Readonly<Record<string, number>>,
  drawn: Readonly<Record<string, Pick<SimulationOptions, "often" | "duplicates">>>,
): void {
  describe(what, () => {
    /** Seeds that found bugs after a long search: lines for `foundLast`. */
    const moved: string[] = [];
    after(() => {
      if (moved.length > 0)
        console.error(`NOTE Write into FOUND_LAST of the ${what}, or it takes longer:\n${moved.join("\n")}`);
    });

    /** How far each run must pass without its plant, by its other options. */
    const clean = new Map<string, SimulationOptions>();

    function expectClean({ plant, createServer, ...run }: SimulationOptions, steps: number): void {
      const name = JSON.stringify(run);
      clean.set(name, { ...run, steps: Math.max(steps, clean.get(name)?.steps ?? 0) });
    }

    it("looks first for bugs that exist", () => {
      const names = new Set(bugs.map(({ name }) => name));
      assert.deepEqual(
        Object.keys({ ...foundLast, ...drawn }).filter((name) => !names.has(name)),
        [],
      );
    });

    for (const [index, { name, options }] of bugs.entries()) {
      it(`finds that ${name}`, { skip: skipVariant(index, 5) }, async (t) => {
        const first = foundLast[name] ?? 1;
        const seeds = Array.from({ length: SEEDS_MAX }, (_, index) => index + 1);
        for (const each of [first, ...seeds.filter((seed) => seed !== first)]) {
          // Where a bug is not theirs, without the commands of our own: one more of them would be
          // another run.
          const kinds = { extensions: false, policies: false, ...options, ...drawn[name] };
          const run = { seed: each, steps: STEPS, ...kinds };
          let steps = 0;
          try {
            await simulate({ ...run, onStep: (step) => (steps = step + 1) });
          } catch (error) {
            t.diagnostic(`found at seed ${each}, step ${steps}: ${findOf(error)}`);
            expectClean(run, steps);
            if (each !== first && each > TRIED_MAX) moved.push(`  "${name}": ${each},`);
            return;
          }
        }
        assert.fail(
          `not found at seed ${first} of FOUND_LAST, nor from 1 to ${SEEDS_MAX}: nothing checks this any more, or it comes too seldom (see DRAWN)`,
        );
      });
    }

    // A run of fewer steps is a prefix of a longer one.
    it("finds nothing at the same seeds and steps without the bugs", async () => {
      for (const run of clean.values()) await simulate(run);
    });
  });
}
