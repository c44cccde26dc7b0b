// Kills with -9 as soon as a batch is cancelled, before the pass over its members: the restart
// removes those that were free, and keeps those that a worker held.

import assert from "node:assert/strict";
import { it } from "node:test";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";

/** Over the shards. */
const TUBES = Array.from({ length: 8 }, (_, index) => `tube-${index}`);
/** Members in each tube: far more than a turn removes. */
const MEMBERS = 500;

for (const shards of [1, 4])
  it(`members that a worker holds outlive the cancel of their batch and a kill, ${shards} shards`, async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const folder = temporaryFolder(t);
    const start = async (): Promise<ServerProcess> => {
      const flags = ["-b", folder, "-f", "0", "--shards", String(shards)];
      const server = await startServer({ kind: "ours", flags });
      t.after(() => server.kill());
      return server;
    };
    const server = await start();
    const client = await WireClient.connect(server.address);
    const worker = await WireClient.connect(server.address);
    assert.equal((await client.ask("open-batch b")).line, "OPENED");
    const held: string[] = [];
    for (const tube of TUBES) {
      client.send(`put-in-tube ${tube} 0 0 60 0 batch=b\r\n\r\n`.repeat(MEMBERS));
      const ids: string[] = [];
      for (let left = MEMBERS; left > 0; left--) ids.push((await client.readReply()).line.split(" ")[1]!);
      held.push(ids[0]!, ids.at(-1)!);
    }
    for (const id of held) assert.match((await worker.ask(`reserve-job ${id}`)).line, /^RESERVED/);
    assert.equal((await client.ask("cancel-batch b")).line, "CANCELLED");
    await server.kill();

    const next = await start();
    const checker = await WireClient.connect(next.address);
    await eventually("the free members are removed", async () => {
      const rows = ((await checker.ask("inspect-batch b")).body ?? "").toString();
      return rows.includes(`\nopen: ${held.length}\n`);
    });
    for (const id of held) assert.match((await checker.ask(`delete ${id}`)).line, /^DELETED/, `job ${id}`);
    for (const each of [client, worker, checker]) each.close();
  });
