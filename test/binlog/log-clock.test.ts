// Tests that the log's times follow the wall clock, even if it is set while the server runs.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

const STEP_SECONDS = 3600;
const DELAY_SECONDS = 10_000;
const SLACK_SECONDS = 60;

/** Environment of a server whose wall clock is an hour ahead while the file exists. */
function clockSetWith(file: string): Record<string, string> {
  const program = `import { existsSync } from "node:fs"; const now = Date.now;
    Date.now = () => now() + (existsSync(${JSON.stringify(file)}) ? ${STEP_SECONDS * 1000} : 0);`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(program)}` };
}

test("a delay given after a clock step ends at the right time after a restart", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const directory = temporaryFolder(t, "clock");
  const flags = ["-b", directory, "-f", "0"];
  const isSet = join(temporaryFolder(t, "clock-is-set"), "set");
  const env = clockSetWith(isSet);
  const first = await startServer({ kind: "ours", flags, env });
  try {
    const client = await WireClient.connect(first.address);
    writeFileSync(isSet, "");
    assert.equal((await client.put("x", { delay: DELAY_SECONDS })).line, "INSERTED 1");
    client.close();
  } finally {
    await first.stop();
  }
  const second = await startServer({ kind: "ours", flags, env });
  try {
    const client = await WireClient.connect(second.address);
    const stats = (await client.ask("stats-job 1")).body!.toString();
    const left = Number(/time-left: (\d+)/.exec(stats)?.[1]);
    assert.ok(left > DELAY_SECONDS - SLACK_SECONDS && left <= DELAY_SECONDS, `time-left: ${left}`);
    client.close();
  } finally {
    await second.stop();
  }
});
