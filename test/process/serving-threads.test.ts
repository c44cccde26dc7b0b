// Tests of placements: clients see no difference, even while bodies are in transit.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { startWithTransport } from "../support/server/start-with-transport.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { skipVariant } from "../support/whole.ts";

const MIB = 1024 * 1024;

async function start(t: TestContext, ...flags: string[]): Promise<ServerProcess> {
  const server = await startServer({ kind: "ours", flags: ["-z", `${16 * MIB}`, ...flags] });
  t.after(() => server.kill());
  return server;
}

/** Names of the server's threads that have a role, without their numbers. */
function roles(server: ServerProcess): string[] {
  const folder = `/proc/${server.pid}/task`;
  return readdirSync(folder)
    .map((thread) => readFileSync(`${folder}/${thread}/comm`, "latin1").split(" ")[0]!.trim())
    .filter((name) => ["acceptor", "shard"].includes(name))
    .sort();
}

/** A body without two equal places. */
function bodyOf(bytes: number): Buffer {
  const body = Buffer.alloc(bytes);
  for (let at = 0; at < bytes; at++) body[at] = (at * 31 + (at >> 8) * 7 + (at >> 16)) & 0xff;
  return body;
}

describe("placement", () => {
  const cases = [
    { flags: ["--placement", "together", "--threads", "2"], names: ["acceptor", "acceptor"] },
    { flags: ["--placement", "together", "--threads", "1"], names: ["acceptor"] },
    { flags: ["--placement", "apart"], names: ["acceptor", "acceptor", "shard", "shard", "shard"] },
  ];
  for (const [row, { flags: placed, names }] of cases.entries()) {
    for (const [column, transport] of (["libuv", "io_uring"] as const).entries()) {
      it(`${placed.join(" ")} with ${transport}: threads, bodies of every size, both ways`, {
        skip: skipVariant(row + column, 2),
      }, async (t) => {
        if (!canRun(t, NEEDS.ours)) return;
        const flags = ["-z", `${16 * MIB}`, ...placed, "--shards", "3", "--acceptors", "2"];
        const server = await startWithTransport(t, transport, flags);
        if (server === undefined) return;
        const threads = names.length === 1 ? "1 thread " : `${names.length} threads `;
        assert.ok(server.stderr.includes(`3 shards and 2 acceptors ${placed[1]} in ${threads}`));
        assert.deepEqual(roles(server), names);
        const clients: WireClient[] = [];
        for (let i = 0; i < 8; i++) clients.push(await WireClient.connect(server.address));
        for (const [position, bytes] of [0, 1, 4095, 4096, 65_536, 65_537, 200_000, 3 * MIB].entries()) {
          const body = bodyOf(bytes);
          const [giver, taker] = [clients[position]!, clients[(position + 1) % 8]!];
          await giver.ask(`use tube-${position}`);
          await taker.ask(`watch tube-${position}`);
          assert.match((await giver.put(body.toString("latin1"))).line, /^INSERTED/);
          const taken = await taker.ask("reserve");
          assert.ok(body.equals(taken.body!), `${bytes} bytes`);
          assert.equal((await taker.ask(`delete ${taken.line.split(" ")[1]}`)).line, "DELETED");
        }
      });
    }
  }
});

describe("a large body in the thread of its shard", () => {
  it("without CR LF behind it is refused, and its memory is freed", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const server = await start(t, "--placement", "together");
    const client = await WireClient.connect(server.address);
    const refuse = async (): Promise<void> => {
      client.send(Buffer.concat([Buffer.from(`put 0 0 60 ${MIB}\r\n`), bodyOf(MIB), Buffer.from("xx")]));
      assert.equal((await client.readReply()).line, "EXPECTED_CRLF");
    };
    for (let i = 0; i < 20; i++) await refuse();
    const before = server.residentBytes();
    for (let i = 0; i < 100; i++) await refuse();
    assert.ok(server.residentBytes() - before < 40 * MIB, "100 bodies of 1 MiB are not kept");
  });

  it("is dropped with its client", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const server = await start(t, "--placement", "together");
    const leave = async (): Promise<void> => {
      const client = await WireClient.connect(server.address);
      // An answer first, so that what follows is read as it comes.
      await client.ask("list-tube-used");
      client.send(Buffer.concat([Buffer.from(`put 0 0 60 ${2 * MIB}\r\n`), bodyOf(MIB)]));
      client.close();
    };
    for (let i = 0; i < 20; i++) await leave();
    const before = server.residentBytes();
    for (let i = 0; i < 100; i++) await leave();
    await eventually(
      "100 halves of bodies to be given back",
      () => server.residentBytes() - before < 40 * MIB,
    );
  });

  it("is sent as it was when its reserve was answered, however slowly the client reads", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const server = await start(t, "--placement", "together");
    const [slow, other] = [
      await WireClient.connect(server.address),
      await WireClient.connect(server.address),
    ];
    const bodies = [bodyOf(MIB), Buffer.alloc(MIB, "z")];
    for (const body of bodies) await other.put(body.toString("latin1"));
    slow.socket.pause();
    slow.send("peek 1\r\npeek 2\r\n");
    await eventually("the first to be answered", async () => {
      const { body } = await other.ask("stats");
      return /^cmd-peek: [1-9]/m.test(body!.toString("latin1"));
    });
    // It is gone, and others in its place, before the client has read anything.
    assert.equal((await other.ask("delete 1")).line, "DELETED");
    for (let i = 0; i < 4; i++) await other.put("?".repeat(MIB));
    slow.socket.resume();
    for (const body of bodies) assert.ok(body.equals((await slow.readReply()).body!));
  });
});
