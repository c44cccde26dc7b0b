// `npm run kill`: repeated kills under load. ROUNDS (500) and PARTITIONS (50) in the environment
// change the numbers.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { campaignCommand, seedOption } from "../support/campaign-command.ts";
import { bundleServer } from "../support/server/server-bundle.ts";

const command = campaignCommand(
  "kill",
  "Kills the server under load, again and again, and looks for what it had acknowledged. " +
    "ROUNDS (500) and PARTITIONS (50) in the environment say how often.",
)
  .addOption(seedOption())
  .option(
    "--moves",
    "while jobs move between shards, are handed on, die and leave for their dead-letter tubes",
  )
  .option("--batches", "while members of batches end and move between shards, one of 10,000 members")
  .option("--replica", "a group of servers: kills and stops of any of its processes, and partitions")
  .parse();
interface Options {
  seed?: number;
  moves?: true;
  batches?: true;
  replica?: true;
}
const { seed, moves, batches, replica } = command.opts<Options>();
const { ROUNDS = "500", PARTITIONS = "50" } = process.env;
const files =
  replica === true
    ? ["../replica/group.test.ts", "../replica/partitions.test.ts"]
    : batches === true
      ? ["batch-ends-kill.test.ts"]
      : moves === true
        ? ["moves-kill.test.ts", "restore.test.ts"]
        : ["kill.test.ts"];
const paths = files.map((file) => fileURLToPath(new URL(file, import.meta.url)));
const { status } = spawnSync(process.execPath, ["--test", "--test-concurrency=1", ...paths], {
  stdio: "inherit",
  env: {
    ...process.env,
    // Started by a test, Node would take these files for a part of that test and run none of them.
    NODE_TEST_CONTEXT: undefined,
    ROUNDS,
    MOVE_KILLS: ROUNDS,
    BATCH_END_KILLS: ROUNDS,
    BATCH_END_MEMBERS: "10000",
    SERVER_BUNDLE: await bundleServer(),
    PARTITIONS,
    ...(seed === undefined ? {} : { SEED: `${seed}` }),
  },
});
process.exitCode = status ?? 1;
