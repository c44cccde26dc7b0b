// Test of a start at which more is due, before the log accepts records, than the rings to it can
// hold.

import assert from "node:assert/strict";
import { it } from "node:test";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { realOptions } from "../binlog/sample/real-options.ts";
import { JobWriter } from "../binlog/sample/sample-log.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startWithTransport } from "../support/server/start-with-transport.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

const JOBS = 8000;
/** Among them are some of each shard. */
const TUBES = ["one", "two", "three", "four"];
const LATE_ENDS = new URL("../support/machine/late-ends.ts", import.meta.url).href;
/** With such small files a ring to the log holds a thousand deletes. */
const FLAGS = ["-s", "250000", "--shards", "2", "--placement", "together", "--threads", "1"];

/** A log of jobs whose time to live has been over for long. */
async function writeExpired(folder: string): Promise<void> {
  const { storage } = await openBinlog(realOptions(folder));
  const writer = new JobWriter(storage);
  for (let id = 1; id <= JOBS; id++) {
    const tube = TUBES[id % TUBES.length]!;
    writer.put(id, "x", tube);
    writer.move(id, tube, 1);
  }
  storage.close(performance.now());
}

const PLACES = [
  ["a thread of its own", "apart"],
  ["the serving thread", "together"],
] as const;
for (const [row, [where, placement]] of PLACES.entries()) {
  for (const [column, transport] of (["libuv", "io_uring"] as const).entries()) {
    it(`shards start when all shards of their thread have their jobs, with the log in ${where} and ${transport}`, {
      skip: skipVariant(row + column, 2),
    }, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      const folder = temporaryFolder(t, "due-at-start");
      await writeExpired(folder);
      const flags = ["-b", folder, ...FLAGS, "--log-placement", placement];
      const env = { NODE_OPTIONS: `--import ${LATE_ENDS}` };
      const server = await startWithTransport(t, transport, flags, env);
      if (server === undefined) return;
      const client = await WireClient.connect(server.address);
      assert.equal((await client.put("x")).line, `INSERTED ${JOBS + 1}`);
      assert.equal((await client.ask("peek 1")).line, "NOT_FOUND");
    });
  }
}
