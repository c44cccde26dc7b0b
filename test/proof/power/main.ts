// `npm run proof:power`: losses of power under load, on the real server and on beanstalkd.

import { Option } from "commander";
import { campaignCommand, seedOption } from "../../support/campaign-command.ts";
import { drawnSeed } from "../../support/seeded-random.ts";
import { wholeNumber } from "../../support/whole-number.ts";
import { whyNoLazyDisk } from "./lazy-disk.ts";
import { losePowerAgain, POWER_MODES, type PowerReport } from "./power-campaign.ts";

const SHOWN = 10;

const options = campaignCommand(
  "proof:power",
  "Takes the power away from the disk of a server under load, again and again, and looks for what it had " +
    "acknowledged. The disk is LazyFS: LAZYFS in the environment names its program.",
)
  .addOption(seedOption())
  .option("--rounds <n>", "losses of power for each mode", wholeNumber(1, 1e6), 100)
  .addOption(
    new Option("--mode <name>", "one mode alone (default: all)").choices(POWER_MODES.map(({ name }) => name)),
  )
  .parse()
  .opts<{ seed?: number; rounds: number; mode?: string }>();

/** Of these the jobs that are gone or back; the others have another state or pri. */
function kindsOf(wrong: readonly string[]): string {
  if (wrong.length === 0) return "";
  const count = (words: string): number => wrong.filter((what) => what.endsWith(words)).length;
  return ` (${count("is lost")} jobs gone, ${count("is back")} back)`;
}

function tell(name: string, report: PowerReport, seconds: number): void {
  const { rounds, losses, acknowledgedPuts, undone, oldestMs, lateMs, brokenRounds, wrong } = report;
  const kinds = Object.entries(losses).map(([kind, count]) => `${count} ${kind}`);
  const age = undone > 0 ? `, the oldest ${Math.round(oldestMs)} ms before` : "";
  console.log(
    `${name}: ${rounds} losses of power (${kinds.join(", ")}), ` +
      `${acknowledgedPuts} acknowledged puts, ${undone} changes lost within the promise${age}, ` +
      `${wrong.length} beyond it after ${brokenRounds} losses${kindsOf(wrong)}; threads woke up to ${Math.round(lateMs)} ms late, ${Math.round(seconds)} s`,
  );
  for (const what of wrong.slice(0, SHOWN)) console.log(`  ${what}`);
}

const reason = whyNoLazyDisk();
if (reason === undefined) {
  const { seed = drawnSeed(), rounds, mode } = options;
  let failed = false;
  for (const each of POWER_MODES.filter(({ name }) => mode === undefined || name === mode)) {
    const startedAt = performance.now();
    const report = await losePowerAgain(each, rounds, seed);
    tell(each.name, report, (performance.now() - startedAt) / 1000);
    failed ||= each.kind === "ours" && report.wrong.length > 0;
  }
  console.log(`seed ${seed}`);
  process.exitCode = failed ? 1 : 0;
} else {
  console.error(`Cannot lose power here: ${reason}.`);
  process.exitCode = 2;
}
