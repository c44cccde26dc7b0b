// Tests of the log in the serving thread: clients, the disk and the shutdown see no difference to
// its own thread.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { smallDisk } from "../support/machine/small-disk.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { startWithTransport } from "../support/server/start-with-transport.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

const MIB = 1024 * 1024;
const RESIDENT = ["--placement", "together", "--threads", "1", "--log-placement", "together"];

async function start(t: TestContext, ...flags: string[]): Promise<ServerProcess> {
  const server = await startServer({ kind: "ours", flags });
  t.after(() => server.kill());
  return server;
}

/** Returns whether a thread of the server is the log's alone. */
function hasLogThread({ pid }: ServerProcess): boolean {
  const folder = `/proc/${pid}/task`;
  return readdirSync(folder).some(
    (thread) => readFileSync(`${folder}/${thread}/comm`, "latin1") === "binlog\n",
  );
}

describe("a log in the thread that serves", () => {
  for (const [index, transport] of (["libuv", "io_uring"] as const).entries()) {
    it(`keeps acknowledged changes, with ${transport}`, { skip: skipVariant(index, 2) }, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      const flags = [
        "-b",
        temporaryFolder(t, "resident"),
        "-f",
        "0",
        "-z",
        `${16 * MIB}`,
        "--shards",
        "2",
        ...RESIDENT,
      ];
      const server = await startWithTransport(t, transport, flags);
      if (server === undefined) return;
      assert.match(server.stderr, /together in 1 thread, with the log \(as asked\)/);
      assert.equal(hasLogThread(server), false);
      const client = await WireClient.connect(server.address);
      // Its records fill the ring to the log more than once: the shard has the log take them in the
      // middle of the put.
      const body = "0123456789abcdef".repeat(3 * (MIB / 16));
      assert.equal((await client.put(body)).line, "INSERTED 1");
      // More ids than the log lends at a time, in one go.
      const puts = 3000;
      client.send("put 0 0 60 1\r\nx\r\n".repeat(puts));
      for (let id = 2; id <= puts + 1; id++) assert.equal((await client.readReply()).line, `INSERTED ${id}`);
      assert.equal((await client.ask("delete 2")).line, "DELETED");
      await server.kill();
      const again = await start(t, ...flags);
      const other = await WireClient.connect(again.address);
      const first = await other.ask("peek 1");
      assert.equal(first.body!.toString("latin1"), body);
      assert.equal((await other.ask("peek 2")).line, "NOT_FOUND");
      assert.match((await other.ask(`peek ${puts + 1}`)).line, /^FOUND/);
      assert.deepEqual(await again.stop(), { code: 0, signal: null });
      assert.match(again.stderr, /the log is closed/);
    });
  }

  it("refuses puts on a full disk, still deletes, and ends on request", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const servers: ServerProcess[] = [];
    // Before the disk goes, which they hold.
    t.after(() => Promise.all(servers.map((each) => each.kill())));
    const folder = smallDisk(t, "6m");
    if (folder === undefined) return;
    const flags = ["-b", folder, "-f", "0", "-s", "1000000", ...RESIDENT];
    const server = await startServer({ kind: "ours", flags });
    servers.push(server);
    const client = await WireClient.connect(server.address);
    let id = 0;
    let line = "";
    for (; line !== "OUT_OF_MEMORY"; id++) {
      ({ line } = await client.put("x".repeat(50_000)));
      assert.ok(id < 200);
    }
    const other = await WireClient.connect(server.address);
    assert.equal((await other.ask("delete 1")).line, "DELETED");
    assert.equal((await other.ask("delete 2")).line, "DELETED");
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    const again = await startServer({ kind: "ours", flags });
    servers.push(again);
    const third = await WireClient.connect(again.address);
    assert.equal((await third.ask("peek 1")).line, "NOT_FOUND");
    assert.match((await third.ask("peek 3")).line, /^FOUND/);
  });

  it("is the default if one thread serves", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const one = ["--placement", "together", "--threads", "1"];
    const cases: [flags: string[], isAlone: boolean][] = [
      [["-f", "0"], false],
      [["-f", "0", "--log-placement", "apart"], true],
      [["-f", "50"], false],
      [["-F"], false],
    ];
    for (const [index, [flags, isAlone]] of cases.entries()) {
      const server = await start(t, ...one, "-b", temporaryFolder(t, `resident-${index}`), ...flags);
      assert.equal(hasLogThread(server), isAlone, flags.join(" "));
      await server.kill();
    }
  });

  it("is refused if several threads serve", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const flags = [
      "--placement",
      "apart",
      "--log-placement",
      "together",
      "-b",
      temporaryFolder(t, "resident"),
    ];
    await assert.rejects(
      startServer({ kind: "ours", flags }),
      /can share a thread only if one thread serves/,
    );
  });
});
