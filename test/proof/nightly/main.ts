// Command `npm run nightly`: all campaigns for a given time, from seeds that were never used, with
// proof.json as the result and a row on the page of all nights.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { InvalidArgumentError } from "commander";
import { campaignCommand } from "../../support/campaign-command.ts";
import { positiveNumber, seedNumber } from "../../support/whole-number.ts";
import { type Proof, playNight, seedOfNow } from "./nightly.ts";
import { withRow } from "./page.ts";
import { PLAN } from "./plan.ts";

const MINUTES_MAX = 10_000;
const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const NAMES = PLAN.map(({ name }) => name);

function campaignNames(text: string): readonly string[] {
  const names = text.split(",");
  const unknown = names.find((name) => !NAMES.includes(name));
  if (unknown !== undefined) throw new InvalidArgumentError(`"${unknown}" is none of ${NAMES.join(", ")}.`);
  return names;
}

const command = campaignCommand(
  "nightly",
  "Plays seeds, kills, histories, losses of power and a soak for a given time, from seeds that no earlier night used.",
)
  .option("--minutes <n>", "how long in all", positiveNumber(MINUTES_MAX), 60)
  .option("--only <names>", `campaigns, separated by commas: ${NAMES.join(", ")}`, campaignNames, NAMES)
  .option("--folder <path>", "where proof.json and nights.md are, and come to be", join(ROOT, ".tmp/nightly"))
  .option(
    "--seed <n>",
    "first seed (default: behind those of the last proof.json, or drawn from the clock)",
    seedNumber,
  );
command.parse();
const { minutes, only, folder, seed } = command.opts<{
  minutes: number;
  only: readonly string[];
  folder: string;
  seed?: number;
}>();

mkdirSync(folder, { recursive: true });
const proofPath = join(folder, "proof.json");
const pagePath = join(folder, "nights.md");
const last = existsSync(proofPath) ? (JSON.parse(readFileSync(proofPath, "utf8")) as Proof) : undefined;
const firstSeed = seed ?? Math.max(seedOfNow(Date.now()), last?.nextSeed ?? 0);
const proof = await playNight({
  ...{ root: ROOT, minutes, firstSeed },
  plan: PLAN.filter(({ name }) => only.includes(name)),
  say: (line) => console.log(line),
});
writeFileSync(proofPath, `${JSON.stringify(proof, undefined, 2)}\n`);
writeFileSync(pagePath, withRow(existsSync(pagePath) ? readFileSync(pagePath, "utf8") : undefined, proof));
console.log(`${proof.failures} failures; ${proofPath} and ${pagePath} are written`);
process.exitCode = proof.failures === 0 ? 0 : 1;
