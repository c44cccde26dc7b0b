// A schedule and kill -9: each tick puts one job, whatever the server was doing. The kills come as
// soon as a worker has got the job of a tick, whose records may not be in the log yet. Meanwhile
// the schedule moves between tubes of different shards.

import assert from "node:assert/strict";
import { it } from "node:test";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { inWhole } from "../support/whole.ts";

const ROUNDS = inWhole(4, 2);
const TUBES = ["mails", "done", "c", "faxes"];

/** Ticks of the jobs in a reply of reserve-batch, with their ids. */
async function takeTicks(client: WireClient): Promise<Map<string, string>> {
  const { line } = await client.ask("reserve-batch 100 10 meta=yes");
  const [, count] = /^RESERVED_BATCH (\d+)$/.exec(line) ?? assert.fail(line);
  const ticks = new Map<string, string>();
  for (let left = Number(count); left > 0; left--) {
    const job = (await client.readUntil("\r\n")).toString("latin1").trimEnd();
    const [, id, tick] = /^RESERVED (\d+) 4 meta=schedule:beat@(\S+)$/.exec(job) ?? assert.fail(job);
    await client.readBytes("ping\r\n".length);
    assert.ok(!ticks.has(tick!), `${tick} comes once`);
    ticks.set(tick!, id!);
  }
  return ticks;
}

it("a schedule puts each tick once through kills and moves", async (t) => {
  if (!canRun(t, NEEDS.ours)) return;
  const folder = temporaryFolder(t);
  const done = new Set<string>();
  for (let round = 0; round <= ROUNDS; round++) {
    const server = await startServer({ kind: "ours", flags: ["-b", folder, "-f", "0", "--shards", "3"] });
    try {
      const client = await WireClient.connect(server.address);
      const { line } = await client.ask(
        `set-schedule beat ${TUBES[round % 4]} 0 0 60 4 every=1 missed=all\r\nping`,
      );
      assert.equal(line, "SET");
      for (const tube of TUBES) await client.ask(`watch ${tube}`);
      const ticks = await takeTicks(client);
      for (const [tick, id] of ticks) {
        const reply = await client.ask(`delete ${id}`);
        assert.equal(reply.line, "DELETED");
        assert.ok(!done.has(tick), `${tick} was deleted, and came again`);
        done.add(tick);
      }
      // Nobody waits for these: they are put again, or are there.
      if (round < ROUNDS) await takeTicks(client);
      client.close();
    } finally {
      await server.kill();
    }
  }
  const times = [...done].map((tick) => Date.parse(tick)).sort((a, b) => a - b);
  assert.ok(times.length > ROUNDS);
  for (const [at, time] of times.slice(1).entries())
    assert.equal(time - times[at]!, 1000, "no tick is lost, and intervals keep their rhythm");
});
