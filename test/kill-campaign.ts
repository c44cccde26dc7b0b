// `npm run kill`: kills under load, again and again. With --moves while jobs move between shards, are handed on, die and leave for
// their dead-letter tubes. With --replica a group: kills and stops of any of its processes, and partitions.
// ROUNDS (500) and PARTITIONS (50) for other numbers, SEED to play one again.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const { ROUNDS = "500", PARTITIONS = "50" } = process.env;
const has = (flag: string): boolean => process.argv.includes(flag);
const files = has("--replica")
  ? ["replica/group.test.ts", "replica/partitions.test.ts"]
  : has("--moves")
    ? ["moves-kill.test.ts", "policies-restart.test.ts"]
    : ["kill.test.ts"];
const paths = files.map((file) => fileURLToPath(new URL(file, import.meta.url)));
const { status } = spawnSync(process.execPath, ["--test", "--test-concurrency=1", ...paths], {
  stdio: "inherit",
  env: { ...process.env, ROUNDS, MOVE_KILLS: ROUNDS, PARTITIONS },
});
process.exitCode = status ?? 1;
