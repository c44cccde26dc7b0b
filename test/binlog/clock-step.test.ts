// Tests that the log's times follow the wall clock, even if it is set while the server runs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

const STEP_SECONDS = 3600;
const DELAY_SECONDS = 10_000;
const SLACK_SECONDS = 60;
/** Longer than a start takes. */
const SET_AFTER_MS = 1500;

/**
 * Environment of a server whose wall clock is set forward by an hour after `delayMs`; 0: from the
 * start.
 */
function clockSetAfter(delayMs: number): Record<string, string> {
  const program = `const now = Date.now; const at = performance.timeOrigin + performance.now() + ${delayMs};
    Date.now = () => now() + (performance.timeOrigin + performance.now() >= at ? ${STEP_SECONDS * 1000} : 0);`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(program)}` };
}

test("a delay given after a clock step ends at the right time after a restart", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const directory = temporaryFolder(t, "clock");
  const flags = ["-b", directory, "-f", "0"];
  const first = await startServer({ kind: "ours", flags, env: clockSetAfter(SET_AFTER_MS) });
  try {
    const client = await WireClient.connect(first.address);
    // Counted from the start of the process, which is some time ago.
    await sleep(SET_AFTER_MS);
    assert.equal((await client.put("x", { delay: DELAY_SECONDS })).line, "INSERTED 1");
    client.close();
  } finally {
    await first.stop();
  }
  const second = await startServer({ kind: "ours", flags, env: clockSetAfter(0) });
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
