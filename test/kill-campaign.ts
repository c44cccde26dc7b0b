// `npm run kill`: kills under load, again and again. With --replica a group: kills and stops of any of its processes, and partitions.
// ROUNDS (500) and PARTITIONS (50) for other numbers, SEED to play one again.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const { ROUNDS = "500", PARTITIONS = "50" } = process.env;
const files = process.argv.includes("--replica")
  ? ["replica/group.test.ts", "replica/partitions.test.ts"]
  : ["kill.test.ts"];
const paths = files.map((file) => fileURLToPath(new URL(file, import.meta.url)));
const { status } = spawnSync(process.execPath, ["--test", "--test-concurrency=1", ...paths], {
  stdio: "inherit",
  env: { ...process.env, ROUNDS, PARTITIONS },
});
process.exitCode = status ?? 1;
