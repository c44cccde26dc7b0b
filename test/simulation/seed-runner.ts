// Thread of `npm run simulate`: runs seed after seed, and shrinks the first failure.

import { workerData } from "node:worker_threads";
import type { SeedRunnerData } from "./guarded-run.ts";
import { formatSteps, shrink } from "./shrink.ts";
import { simulate } from "./simulation.ts";

const SHRINK_MS_MAX = 60_000;

const { firstSeed, count, steps, only, shrink: mayShrink, fault, progress } = workerData as SeedRunnerData;
const words = new Float64Array(progress);
const eaten: unknown[] = [];

function onStep(step: number): void {
  words[1] = step;
  words[2] = words[2]! + 1;
  if (fault === "circle" && step === 3) for (;;) {}
  if (fault === "memory" && step === 3) for (;;) eaten.push(new Array(1e5).fill(step));
}

let commands = 0;
let schedulerSteps = 0;
let restarts = 0;
const startedAt = performance.now();
console.log(`seeds ${firstSeed} to ${firstSeed + count - 1}, ${steps} steps each`);
for (let each = firstSeed; each < firstSeed + count; each++) {
  words[0] = each;
  try {
    const result = await simulate({ seed: each, steps, onStep, ...(only === undefined ? {} : { only }) });
    commands += result.commands;
    schedulerSteps += result.schedulerSteps;
    restarts += result.restarts;
  } catch (error) {
    console.error(error);
    console.error(`\nagain: npm run simulate -- --seed ${each} --steps ${steps}`);
    if (mayShrink && only === undefined) await showShortest(each);
    process.exit(1);
  }
}
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
console.log(
  `${count} runs, ${commands} commands, ${restarts} restarts, ${schedulerSteps} scheduler steps in ${seconds} s: nothing found`,
);

async function showShortest(failing: number): Promise<void> {
  const shortest = await shrink(failing, steps, SHRINK_MS_MAX, { onStep });
  console.error(`\nshortest of its kind, ${shortest.only.length} steps: ${shortest.error}`);
  console.error(
    `again: npm run simulate -- --seed ${failing} --steps ${shortest.steps} --only ${formatSteps(shortest.only)}`,
  );
}
