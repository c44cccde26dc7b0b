// `npm run outbox`: kills of relays, PostgreSQL and the server with a ledger of rows; or, with
// --speed, rows a second and waits; with --rate, waits under a steady load.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { campaignCommand, seedOption } from "../support/campaign-command.ts";
import { bundleServer } from "../support/server/server-bundle.ts";
import { wholeNumber } from "../support/whole-number.ts";

const command = campaignCommand(
  "outbox",
  "Kills relays, PostgreSQL and the server while rows go through an outbox, and looks for rows " +
    "that are lost, doubled or out of order. With --speed, measures instead.",
)
  .addOption(seedOption())
  .option("--kills <n>", "how many kills", wholeNumber(1, 1_000_000), 50)
  .option("--speed", "measure rows a second through a relay, and the wait from commit to RESERVED")
  .option("--rows <n>", "with --speed: how many rows", wholeNumber(1, 900_000), 100_000)
  .option("--rate <n>", "measure waits while so many rows are committed each second", wholeNumber(1, 100_000))
  .option("--seconds <n>", "with --rate: for how long", wholeNumber(1, 86_400), 180)
  .option("--tubes <n>", "with --speed and --rate: in how many tubes", wholeNumber(1, 10_000), 1)
  .option("--waits <n>", "with --speed: how many waits", wholeNumber(1, 100_000), 500)
  .parse();
const { seed, kills, speed, rows, rate, seconds, tubes, waits } = command.opts<{
  seed?: number;
  kills: number;
  speed?: true;
  rows: number;
  rate?: number;
  seconds: number;
  tubes: number;
  waits: number;
}>();

process.env["SERVER_BUNDLE"] = await bundleServer();
const quantiles = (sortedMs: readonly number[]): string => {
  const at = (share: number): string => sortedMs[Math.floor((sortedMs.length - 1) * share)]!.toFixed(1);
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms: ${sortedMs.length}`;
};
// Imported here, when the bundle is known.
if (rate !== undefined) {
  const { measureLoad } = await import("./outbox-speed.ts");
  const { rowsASecond, waitsMs, besideMs, waitingMost } = await measureLoad(rate, seconds, tubes);
  console.log(`${Math.round(rowsASecond)} rows/s of ${rate} for ${seconds} s, ${tubes} tubes`);
  console.log(`wait ${quantiles(waitsMs)} rows; at most ${waitingMost} rows waited`);
  console.log(`beside it, put, reserve and delete ${quantiles(besideMs)} times`);
} else if (speed === true) {
  const { measure } = await import("./outbox-speed.ts");
  const { rowsASecond, waitsMs } = await measure(rows, tubes, waits);
  console.log(`${Math.round(rowsASecond)} rows/s: ${rows} rows, ${tubes} tubes`);
  console.log(`wait ${quantiles(waitsMs)} rows`);
} else {
  const path = fileURLToPath(new URL("outbox-kill.test.ts", import.meta.url));
  const { status } = spawnSync(process.execPath, ["--test", path], {
    stdio: "inherit",
    env: {
      ...process.env,
      // Started by a test, Node would take the file for a part of that test and run none of it.
      NODE_TEST_CONTEXT: undefined,
      KILLS: `${kills}`,
      ...(seed === undefined ? {} : { SEED: `${seed}` }),
    },
  });
  process.exitCode = status ?? 1;
}
