// Tests of the limit within which a server has to end.

import assert from "node:assert/strict";
import { test } from "node:test";
import { startServer } from "./server-process.ts";

test("a server that doesn't end in time after SIGTERM fails its test, and is killed", async () => {
  const server = await startServer({ kind: "ours" });
  server.signal("SIGSTOP");
  await assert.rejects(server.stop(300), /did not end within 300 ms of SIGTERM/);
  assert.equal((await server.exited).signal, "SIGKILL");
  // It is gone now.
  await server.stop();
});
