// Test that the main thread loads what time zones need, before a thread that serves clients does.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startServer } from "../support/server/server-process.ts";

const LIMIT_MS = 60_000;
const LOOK_MS = 20;

/** Writes a file when the main thread makes a date format. */
const noting = (file: string): string => `
  import { writeFileSync } from "node:fs";
  import { isMainThread } from "node:worker_threads";
  const { DateTimeFormat } = Intl;
  Intl.DateTimeFormat = class extends DateTimeFormat {
    constructor(...given) {
      super(...given);
      if (isMainThread) writeFileSync(${JSON.stringify(file)}, "");
    }
  };`;

it("the main thread loads the data of time zones soon after the start", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const file = join(temporaryFolder(t, "time-zones"), "loaded");
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(noting(file))}` };
  const server = await startServer({ kind: "ours", env });
  t.after(() => server.kill());
  const beganMs = performance.now();
  while (!existsSync(file) && performance.now() - beganMs < LIMIT_MS) await sleep(LOOK_MS);
  assert.ok(existsSync(file));
});
