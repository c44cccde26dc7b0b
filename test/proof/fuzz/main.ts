// Command `npm run fuzz:coverage`: changes kept inputs of the readers of foreign bytes, and keeps
// those that execute something new.

import "../../support/checked.ts";
import { InvalidArgumentError } from "commander";
import { campaignCommand, seedOption } from "../../support/campaign-command.ts";
import { drawnSeed, SeededRandom } from "../../support/seeded-random.ts";
import { wholeNumber } from "../../support/whole-number.ts";
import { readCorpus, writeCorpus } from "./corpus.ts";
import { fuzz, shortened } from "./guided.ts";
import { TARGETS } from "./targets.ts";

const NAMES = TARGETS.map(({ name }) => name);

function targetName(text: string): string {
  if (!NAMES.includes(text)) throw new InvalidArgumentError(`"${text}" is none of ${NAMES.join(", ")}.`);
  return text;
}

const command = campaignCommand(
  "fuzz:coverage",
  "Feeds the readers of foreign bytes with inputs that execute ever more of them.",
)
  .option("--target <name>", `one of ${NAMES.join(", ")} (default: all)`, targetName)
  .option("--seconds <n>", "how long for each target", wholeNumber(1, 1e6), 60)
  .option("--keep", "write inputs that executed something new to test/proof/fuzz/corpus")
  .addOption(seedOption());
command.parse();
const {
  target: only,
  seconds,
  keep,
  seed = drawnSeed(),
} = command.opts<{
  target?: string;
  seconds: number;
  keep?: true;
  seed?: number;
}>();

console.log(`seed ${seed}`);
for (const target of TARGETS.filter(({ name }) => only === undefined || name === only)) {
  const kept = readCorpus(target.name);
  const { played, features, corpus, finding } = fuzz(target, {
    corpus: kept,
    random: new SeededRandom(seed),
    ms: seconds * 1000,
  });
  console.log(
    `${target.name}: ${played} inputs in ${seconds} s, ${features} features, ${corpus.length} inputs that showed one (${kept.length} were kept before)`,
  );
  if (keep === true && finding === undefined) writeCorpus(target.name, corpus);
  if (finding === undefined) continue;
  const shortest = shortened(target, finding.input);
  console.error(
    `FOUND in ${target.name}: ${finding.error instanceof Error ? finding.error.stack : finding.error}`,
  );
  console.error(
    `the shortest input in base64, a line for corpus/${target.name}.txt: ${Buffer.from(shortest).toString("base64")}`,
  );
  process.exitCode = 1;
}
