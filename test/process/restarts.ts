// Restarts of a server with other numbers of shards, once of a compacted log, after an orderly end
// and after a kill.

import assert from "node:assert/strict";
import type { ServerProcess } from "../support/server/server-process.ts";
import { runTool } from "../support/server/tool.ts";

export async function overRestarts(
  folder: string,
  start: (shards: number) => Promise<ServerProcess>,
  check: (server: ServerProcess, shards: number) => Promise<void>,
): Promise<void> {
  for (const shards of [7, 1, 3]) {
    if (shards === 1) assert.equal((await runTool(["binlog", "compact", folder])).code, 0);
    const server = await start(shards);
    try {
      await check(server, shards);
    } finally {
      await (shards === 7 ? server.stop() : server.kill());
    }
  }
}
