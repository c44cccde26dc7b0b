// Tests of a client that half-closes behind a long reply: the end waits for the reply, unless the
// client is gone.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Counter } from "../../src/message/topology.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import type { FakeSocket } from "./server/fake-socket.ts";
import { InProcessServer } from "./server/in-process-server.ts";

/** More than a shard sends before the client has read some. */
const BODY_BYTES = 600_000;

interface Scene {
  readonly server: InProcessServer;
  readonly reader: FakeSocket;
  readonly other: FakeSocket;
  ask(text: string): string;
}

/** The reader holds job 1, has asked to see it, reads nothing, and has closed its half. */
function scene(shards: number): Scene {
  const server = new InProcessServer({
    shards,
    acceptors: 2,
    random: new SeededRandom(1),
    jobBytesMax: BODY_BYTES,
  });
  const other = server.connect(1);
  const ask = (text: string): string => {
    other.write(Buffer.from(`${text}\r\n`));
    server.settle();
    return other.takeReceived().toString("latin1");
  };
  assert.equal(ask(`put 0 0 60 ${BODY_BYTES}\r\n${"x".repeat(BODY_BYTES)}`), "INSERTED 1\r\n");
  const reader = server.connect(0);
  reader.readsAtOnce = false;
  reader.write(Buffer.from("reserve\r\n"));
  server.settle();
  for (let all = 0; all < BODY_BYTES; server.settle()) {
    reader.read(BODY_BYTES);
    all += reader.takeReceived().length;
  }
  reader.write(Buffer.from("peek 1\r\n"));
  reader.halfClose();
  server.settle();
  assert.match(ask("stats-job 1"), /^state: reserved$/m, "the reply under way keeps the connection");
  return { server, reader, other, ask };
}

for (const shards of [1, 4]) {
  test(`a client that half-closes behind a long reply gets all of it before the end (${shards} shards)`, () => {
    const { server, reader, ask } = scene(shards);
    let bytes = 0;
    reader.onEndVisible = () => assert.match(ask("stats-job 1"), /^state: ready$/m);
    for (let rounds = 0; !reader.endVisible && rounds < 100; rounds++) {
      reader.read(50_000);
      server.settle();
      bytes += reader.takeReceived().length;
    }
    assert.equal(bytes, `FOUND 1 ${BODY_BYTES}\r\n`.length + BODY_BYTES + 2);
    assert.ok(reader.endVisible);
    assert.match(ask("stats"), /^current-connections: 1$/m);
  });

  test(`a client that half-closes behind a long reply and then leaves keeps nothing (${shards} shards)`, () => {
    const { server, reader, ask } = scene(shards);
    const { slot } = reader;
    reader.reset();
    server.settle();
    assert.match(ask("stats-job 1"), /^state: ready$/m, "its job is back");
    assert.match(ask("stats"), /^current-connections: 1$/m);
    assert.equal(server.connect(0).slot, slot, "its slot is used again");
  });
}

test("a client that becomes a worker behind its own end isn't counted forever", () => {
  const server = new InProcessServer({ shards: 1, acceptors: 1, random: new SeededRandom(1) });
  const client = server.connect(0);
  client.write(Buffer.from("put 0 0 60 1\r\nx\r\n"));
  server.settle();
  client.write(Buffer.from("reserve-job 1\r\n"));
  client.halfClose();
  server.settle();
  assert.equal(client.takeReceived().toString("latin1"), "INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
  assert.ok(client.endVisible);
  const { counters } = server.acceptors[0]!;
  assert.equal(counters[Counter.Workers], 0);
  assert.equal(counters[Counter.Producers], 0);
});
