// Seeds of the simulators that `npm test` plays too, for mutants that all unit tests let live.

import { it } from "node:test";
import { simulate as simulateLog } from "../../binlog/simulation.ts";
import { simulate } from "../../simulation/simulation.ts";

/** Some of the seeds of test/simulation/simulation.test.ts and test/binlog/simulation.test.ts. */
const SEEDS = 8;
const LOG_SEEDS = 6;
const STEPS = 300;
const LOG_STEPS = 200;

for (let seed = 1; seed <= SEEDS; seed++)
  it(`seed ${seed} of the server`, async () => {
    await simulate({ seed, steps: STEPS });
  });
for (let seed = 1; seed <= LOG_SEEDS; seed++)
  it(`seed ${seed} of the log`, async () => {
    await simulateLog(seed, LOG_STEPS);
  });
