// Proves the sensitivity of the simulation: each planted bug is found, at a seed that finds nothing
// without it.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { findOf } from "../../support/planted-find.ts";
import { skipVariant } from "../../support/whole.ts";
import { simulate } from "../simulation.ts";
import type { SimulationOptions } from "../simulation-state.ts";
import type { PlantedBug } from "./planted-bug.ts";

const STEPS = 300;
/** A planted bug must be found within so many seeds: half a minute. */
const SEEDS_MAX = 100;
/** A find at a later seed is printed: in FOUND_LAST, it makes the next search shorter. */
const TRIED_MAX = 5;

/** The file that asks for the test declares it: the runner counts tests by file. */
interface PlantedTest {
  readonly name: string;
  readonly skip: string | false;
  readonly run: (t: TestContext) => Promise<void>;
}

/**
 * Returns tests that each bug is found, at the seed in `foundLast` or from 1 on. If clients draw
 * other commands than before, the search takes longer, but skips nothing. Bugs that occur too
 * seldom have further options in `drawn`.
 */
export function plantedTests(
  bugs: readonly PlantedBug[],
  foundLast: Readonly<Record<string, number>>,
  drawn: Readonly<Record<string, Pick<SimulationOptions, "often" | "duplicates">>>,
): readonly PlantedTest[] {
  /** Seeds that found bugs after a long search: lines for `foundLast`. */
  const moved: string[] = [];
  /** How far each run must pass without its plant, by its other options. */
  const clean = new Map<string, SimulationOptions>();

  function expectClean({ plant, createServer, ...run }: SimulationOptions, steps: number): void {
    const name = JSON.stringify(run);
    clean.set(name, { ...run, steps: Math.max(steps, clean.get(name)?.steps ?? 0) });
  }

  async function find({ name, options }: PlantedBug, t: TestContext): Promise<void> {
    const first = foundLast[name] ?? 1;
    const seeds = Array.from({ length: SEEDS_MAX }, (_, index) => index + 1);
    for (const each of [first, ...seeds.filter((seed) => seed !== first)]) {
      // Only bugs of our own commands are played with them: a new command changes such a run.
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
  }

  return [
    {
      name: "looks first for bugs that exist",
      skip: false,
      run: async () => {
        const names = new Set(bugs.map(({ name }) => name));
        const gone = Object.keys({ ...foundLast, ...drawn }).filter((name) => !names.has(name));
        assert.deepEqual(gone, []);
      },
    },
    ...bugs.map((bug, index) => ({
      name: `finds that ${bug.name}`,
      skip: skipVariant(index, 5),
      run: (t: TestContext) => find(bug, t),
    })),
    {
      // A run of fewer steps is a prefix of a longer one.
      name: "finds nothing at the same seeds and steps without the bugs",
      skip: false,
      run: async () => {
        for (const run of clean.values()) await simulate(run);
        if (moved.length > 0)
          console.error(`NOTE Write into FOUND_LAST, or the search takes longer:\n${moved.join("\n")}`);
      },
    },
  ];
}
