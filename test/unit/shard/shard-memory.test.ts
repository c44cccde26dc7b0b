// Tests of the replies when memory for bodies runs out, through a whole server with a small arena.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BodyArena } from "../../../src/engine/jobs/body-arena.ts";
import type { FakeSocket } from "../../simulation/server/fake-socket.ts";
import { InProcessServer } from "../../simulation/server/in-process-server.ts";
import { HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

const MIB = 1 << 20;

function serverWith(arenaBytes: number): {
  server: InProcessServer;
  ask: (text: string) => string;
  client: FakeSocket;
} {
  const server = new InProcessServer({
    shards: 1,
    acceptors: 1,
    random: new SeededRandom(1),
    jobBytesMax: 64 * MIB,
    arena: () => new BodyArena(arenaBytes),
  });
  const client = server.connect();
  const ask = (text: string): string => {
    client.write(Buffer.from(text, "latin1"));
    server.settle();
    return client.takeReceived().toString("latin1");
  };
  return { server, ask, client };
}

const put = (bytes: number): string => `put 0 0 60 ${bytes}\r\n${"x".repeat(bytes)}\r\n`;

describe("a shard without memory for a body", () => {
  it("answers OUT_OF_MEMORY, uses up the id, and continues", () => {
    const { server, ask } = serverWith(MIB);
    assert.equal(ask(put(50_000)), "INSERTED 1\r\n");
    assert.equal(ask(put(5000)), "OUT_OF_MEMORY\r\n");
    assert.equal(ask(put(0)), "INSERTED 3\r\n");
    assert.equal(ask("peek 2\r\n"), "NOT_FOUND\r\n");
    assert.equal(ask("delete 1\r\n"), "DELETED\r\n");
    assert.equal(server.shards[0]!.engine.jobs.live, 1);
  });

  it("drops a body in pieces, frees its memory, and keeps the connection in step", () => {
    const { server, ask } = serverWith(3 * MIB);
    assert.equal(ask(`${put(5 * MIB)}list-tube-used\r\n`), "OUT_OF_MEMORY\r\nUSING default\r\n");
    assert.equal(server.shards[0]!.engine.bodies.reservedBytes, 0);
    assert.match(ask(put(2 * MIB)), /^INSERTED 2\r\n$/);
    assert.equal(ask("reserve\r\n").length, `RESERVED 2 ${2 * MIB}\r\n\r\n`.length + 2 * MIB);
  });

  it("frees a half-received body when its client leaves", () => {
    const { server, client } = serverWith(64 * MIB);
    client.write(Buffer.from(`put 0 0 60 ${20 * MIB}\r\n${"x".repeat(4 * MIB)}`));
    server.settle();
    assert.ok(server.shards[0]!.engine.bodies.reservedBytes >= 3 * MIB);
    client.reset();
    server.settle();
    assert.equal(server.shards[0]!.engine.bodies.reservedBytes, 0);
  });

  it("frees the body of a put behind a long reply when its client leaves", () => {
    const server = new HandDrivenServer(1);
    const { bodies, jobs } = server.shards[0]!.engine;
    server.acceptor.arenas[0] = bodies;
    server.connect(true).say(put(MIB));
    server.settle();
    const before = bodies.usedBytes;
    const reader = server.connect(false);
    reader.say(`peek 1\r\n${put(60_000)}`);
    server.settle();
    assert.ok(bodies.usedBytes >= before + 60_000, "it is in the arena");
    assert.equal(jobs.live, 1, "and waits until its client has read");
    server.disconnect(reader);
    server.settle();
    assert.equal(bodies.usedBytes, before);
  });

  it("keeps a body while a slow client reads it, and frees it afterwards", () => {
    const { server, ask } = serverWith(64 * MIB);
    ask(put(8 * MIB));
    const reader = server.connect();
    reader.readsAtOnce = false;
    reader.write(Buffer.from("peek 1\r\n"));
    server.settle();
    assert.ok(reader.pendingBytes < MIB, `${reader.pendingBytes} bytes wait for a client that does not read`);
    assert.equal(ask("delete 1\r\n"), "DELETED\r\n");
    assert.equal(server.shards[0]!.engine.bodies.reservedBytes, 8 * MIB);
    reader.readAll();
    server.settle();
    assert.equal(reader.takeReceived().length, `FOUND 1 ${8 * MIB}\r\n\r\n`.length + 8 * MIB);
    assert.equal(server.shards[0]!.engine.bodies.reservedBytes, 0);
  });
});
