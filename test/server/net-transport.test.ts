// Tests of replies through `socket.write`, the fallback if Node's internals for direct writes are
// missing: some transcripts, and cases that depend on how bytes leave: a slow reader, a huge body,
// pipelining, an early end.

import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { describe, it } from "node:test";
import { playTranscript, takesTime } from "../support/conversations/play-transcript.ts";
import { loadTranscripts } from "../support/conversations/transcript.ts";
import { expectGrowth } from "../support/machine/expect-growth.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { type ServerProcess, startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { topologyFlags } from "../support/topologies.ts";
import { skipVariant } from "../support/whole.ts";

/** Every server that this file starts inherits it. */
const SWITCH = "RUNNERBEAN_STREAM_WRITES";
process.env[SWITCH] = "1";

const MIB = 1024 * 1024;
const FLAGS = [...topologyFlags({ shards: 2, acceptors: 1 }), "-z", `${64 * MIB}`];
const PLAYED = /^(framing|put-|peek|closing|conformance|quirks|reserve-half|stats-fresh)/;

type DirectWrite = typeof import("../../src/acceptor/sockets/net-transport.ts");

/**
 * Result of a direct write of three bytes to a fresh connection, in a module loaded while the
 * switch is `value`.
 */
async function writeResult(
  value: "0" | "1",
): Promise<{ result: number; results: DirectWrite["WriteResult"] }> {
  process.env[SWITCH] = value;
  const url = new URL(`../../src/acceptor/sockets/net-transport.ts?${value}`, import.meta.url);
  const { directWrite, WriteResult } = (await import(url.href)) as DirectWrite;
  process.env[SWITCH] = "1";
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const accepted = once(listener, "connection") as Promise<[Socket]>;
  const client = await WireClient.connect({
    host: "127.0.0.1",
    port: (listener.address() as AddressInfo).port,
  });
  const [socket] = await accepted;
  const handle = (socket as unknown as { _handle: unknown })._handle;
  const result = directWrite(handle, Buffer.from("abc"), () => {});
  socket.end();
  if (result === WriteResult.Done) assert.equal((await client.readBytes(3)).toString(), "abc");
  else await client.expectEnd();
  client.close();
  listener.close();
  return { result, results: WriteResult };
}

async function withServer(body: (server: ServerProcess) => Promise<void>): Promise<void> {
  const server = await startServer({ kind: "ours", flags: FLAGS });
  try {
    await body(server);
    const client = await WireClient.connect(server.address);
    assert.equal((await client.ask("list-tube-used")).line, "USING default");
    client.close();
  } finally {
    await server.kill();
  }
}

describe("the switch", () => {
  it("turns direct writes off", async () => {
    const { result, results } = await writeResult("1");
    assert.equal(result, results.Unavailable);
  });

  it("leaves them on by default: this Node supports them", async () => {
    const { result, results } = await writeResult("0");
    assert.equal(result, results.Done);
  });
});

describe("replies through socket.write: transcripts", { concurrency: 3 }, () => {
  const played = loadTranscripts().filter((transcript) => PLAYED.test(transcript.name));
  assert.ok(played.length > 10);
  for (const [index, transcript] of played.entries()) {
    if (transcript.only === "beanstalkd-1.12" || takesTime(transcript)) continue;
    it(transcript.name, { skip: skipVariant(index, 3) }, async (t) => {
      if (!canRun(t, NEEDS.ours)) return;
      await playTranscript(transcript, "ours", topologyFlags({ shards: 4, acceptors: 1 }));
    });
  }
});

describe("replies through socket.write", () => {
  it("a slow reader gets every byte in order, and its commands wait", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    await withServer(async (server) => {
      const owner = await WireClient.connect(server.address);
      const bodies = Array.from({ length: 20 }, (_, index) => String.fromCharCode(97 + index).repeat(60_000));
      for (const body of bodies) await owner.put(body);
      const reader = await WireClient.connect(server.address);
      reader.socket.pause();
      const before = server.residentBytes();
      const peeks = Array.from({ length: 2000 }, (_, index) => (index % bodies.length) + 1);
      reader.send(peeks.map((id) => `peek ${id}\r\n`).join(""));
      for (let round = 0; round < 50; round++) await owner.ask("list-tube-used");
      // 120 MB of replies, of which the server must hold but a little.
      await expectGrowth(server, before, 64 * MIB);
      reader.socket.resume();
      for (const id of peeks) {
        const { line, body } = await reader.readReply();
        assert.equal(line, `FOUND ${id} 60000`);
        assert.ok(body?.equals(Buffer.from(bodies[id - 1]!)), `the body of job ${id} is another`);
      }
      reader.close();
      owner.close();
    });
  });

  it("a body of 48 MiB comes back whole", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    await withServer(async (server) => {
      const client = await WireClient.connect(server.address);
      const body = Buffer.alloc(48 * MIB, "0123456789abcdef-");
      client.send(`put 0 0 600 ${body.length}\r\n`);
      client.send(body);
      client.send("\r\n");
      assert.equal((await client.readReply(60_000)).line, "INSERTED 1");
      client.send("reserve\r\ndelete 1\r\n");
      const reserved = await client.readReply(60_000);
      assert.equal(reserved.line, `RESERVED 1 ${body.length}`);
      assert.ok(reserved.body?.equals(body), "the body has changed");
      assert.equal((await client.readReply()).line, "DELETED");
      client.close();
    });
  });

  it("20,000 pipelined commands get 20,000 replies, then the end", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    await withServer(async (server) => {
      const client = await WireClient.connect(server.address);
      const cycle = (id: number): string =>
        `put 0 0 60 3\r\nabc\r\nreserve\r\ndelete ${id}\r\nlist-tube-used\r\n`;
      const ids = Array.from({ length: 5000 }, (_, index) => index + 1);
      client.send(ids.map(cycle).join(""));
      client.halfClose();
      for (const id of ids) {
        assert.equal((await client.readReply()).line, `INSERTED ${id}`);
        assert.equal((await client.readReply()).line, `RESERVED ${id} 3`);
        assert.equal((await client.readReply()).line, "DELETED");
        assert.equal((await client.readReply()).line, "USING default");
      }
      await client.expectEnd();
      client.close();
    });
  });

  it("clients that leave in the middle of a reply release their jobs", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    await withServer(async (server) => {
      const owner = await WireClient.connect(server.address);
      owner.send(`put 0 0 600 ${16 * MIB}\r\n`);
      owner.send(Buffer.alloc(16 * MIB, "x"));
      owner.send("\r\n");
      assert.equal((await owner.readReply(60_000)).line, "INSERTED 1");
      for (const end of ["close", "reset", "halfClose"] as const) {
        const client = await WireClient.connect(server.address);
        client.send("reserve\r\n");
        assert.equal((await client.readUntil("\r\n")).toString(), `RESERVED 1 ${16 * MIB}\r\n`);
        client.socket.pause();
        client[end]();
        if (end === "halfClose") {
          // It may still read all of it, and only then the connection ends.
          client.socket.resume();
          await client.readBytes(16 * MIB + 2, 60_000);
          await client.expectEnd();
          client.close();
        }
        // A wait that ends with the job: it has come back.
        assert.equal((await owner.ask("reserve-with-timeout 10")).line, `RESERVED 1 ${16 * MIB}`);
        assert.equal((await owner.ask("release 1 0 0")).line, "RELEASED");
      }
      owner.close();
    });
  });
});
