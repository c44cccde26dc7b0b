// The command `npm run simulate -- --seed N --steps M --runs K`: runs K seeds from N on, M steps each.

import { parseArgs } from "node:util";
import { simulate } from "./simulation.ts";

const { values } = parseArgs({
  options: { seed: { type: "string" }, steps: { type: "string" }, runs: { type: "string" } },
});

const steps = Number(values.steps ?? 500);
const firstSeed = values.seed === undefined ? Date.now() % 1_000_000_000 : Number(values.seed);
const runs = Number(values.runs ?? (values.seed === undefined ? 1000 : 1));

/** The shortest run of this seed that still fails, by bisection: a run of fewer steps is a prefix of a longer one. */
function shortestFailure(seed: number): number {
  let low = 0;
  let high = steps;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (fails(seed, middle)) high = middle;
    else low = middle + 1;
  }
  return high;
}

function fails(seed: number, count: number): boolean {
  try {
    simulate({ seed, steps: count });
    return false;
  } catch {
    return true;
  }
}

let commands = 0;
let schedulerSteps = 0;
const startedAt = performance.now();
console.log(`seeds ${firstSeed} to ${firstSeed + runs - 1}, ${steps} steps each`);
for (let seed = firstSeed; seed < firstSeed + runs; seed++) {
  try {
    const result = simulate({ seed, steps });
    commands += result.commands;
    schedulerSteps += result.schedulerSteps;
  } catch (error) {
    console.error(error);
    const shortest = shortestFailure(seed);
    console.error(`\nagain: npm run simulate -- --seed ${seed} --steps ${shortest}`);
    process.exit(1);
  }
}
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
console.log(
  `${runs} runs, ${commands} commands, ${schedulerSteps} scheduler steps in ${seconds} s: nothing found`,
);
