// Command `npm run proof:marks`: plays the simulators, and says which rare branches they reached.

import "../../support/checked.ts";
import { Option } from "commander";
import { campaignCommand, seedOption, seedsOption } from "../../support/campaign-command.ts";
import { drawnSeed } from "../../support/seeded-random.ts";
import { CodeCoverage } from "../fuzz/code-coverage.ts";
import { MARKS, SIMULATORS, type Simulator } from "./marks.ts";
import { countMarks, placesOf } from "./reached.ts";

const command = campaignCommand(
  "proof:marks",
  "Plays the simulators, and fails if one no longer reaches a rare branch.",
)
  .addOption(seedOption())
  .addOption(seedsOption("100"))
  .addOption(new Option("--only <simulator>", "play only this one").choices(SIMULATORS));
command.parse();
const {
  seed = drawnSeed(),
  seeds = 100,
  only,
} = command.opts<{ seed?: number; seeds?: number; only?: Simulator }>();

const all = Array.from({ length: seeds }, (_, index) => seed + index);
const places = placesOf(MARKS);
const coverage = new CodeCoverage();
let missed = 0;
for (const simulator of SIMULATORS.filter((each) => only === undefined || each === only)) {
  const own = places.filter(({ mark }) => mark.simulator === simulator);
  const counts = await countMarks(coverage, simulator, own, all);
  console.log(`${simulator}, ${seeds} seeds from ${seed}:`);
  for (const [{ what }, count] of counts) console.log(`${count}`.padStart(10), what);
  missed += counts
    .values()
    .filter((count) => count === 0)
    .toArray().length;
}
console.log(`${missed} marks missed of ${places.length}`);
if (missed > 0) console.error(`again: npm run proof:marks -- --seed ${seed} --seeds ${seeds}`);
process.exitCode = missed === 0 ? 0 : 1;
