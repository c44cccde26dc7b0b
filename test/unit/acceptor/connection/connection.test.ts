// Tests of a connection: of puts on their way to a shard, by the size of their bodies, and of its
// end.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ConnectionMigrator } from "../../../../src/acceptor/migration/connection-migrator.ts";
import { type HandDrivenClient, HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const PUTS = 3;

describe("a connection", () => {
  for (const [how, bodyBytes] of [
    ["sent whole", 10],
    ["sent in pieces", 200_000],
  ] as const) {
    it(`counts a put that is ${how} once for the affinity of its connection`, () => {
      const server = new HandDrivenServer(2);
      server.acceptor.migrator = new ConnectionMigrator({
        topology: server.topology,
        core: server.acceptor,
        acceptor: 0,
        loads: { mayTakeOne: () => false },
        nowMs: () => 1000,
        commands: PUTS + 1,
        ways: [],
      });
      const client = server.connect(true);
      for (let put = 0; put < PUTS; put++) {
        client.say(`put 0 0 60 ${bodyBytes}\r\n${"x".repeat(bodyBytes)}\r\n`);
        server.settle();
        assert.match(client.take(), /^INSERTED \d+\r\n$/);
      }
      const { affinity, shard } = client.connection.replies;
      assert.deepEqual([affinity.shard, affinity.streak], [shard, PUTS]);
    });
  }
});

// Tests of a client that half-closes behind commands whose job moves to other shards: each is
// answered, and the end comes last.

const SHARDS = 4;
const TURNS_MAX = 14;
const MOVES = ["b", "c", "d", "e"].map((tube) => `update-job 1 tube=${tube}\r\n`).join("");

/**
 * A server with one job, and a client that says what moves it about and looks at it, then
 * half-closes `turns` turns later.
 */
function halfCloseAfter(turns: number): { server: HandDrivenServer; client: HandDrivenClient } {
  const server = new HandDrivenServer(SHARDS);
  const putter = server.connect(true);
  putter.say("put-in-tube a 0 0 60 1\r\nx\r\n");
  server.settle();
  assert.equal(putter.take(), "INSERTED 1\r\n");
  const client = server.connect(true);
  client.say(`reserve-job 1\r\n${MOVES}peek 1\r\n`);
  for (let turn = 0; turn < turns; turn++) server.turn();
  client.connection.onEnd();
  return { server, client };
}

/** The job is unreserved, and no shard knows the connection: the next one gets its slot. */
function expectForgotten(server: HandDrivenServer, { connection: { slot } }: HandDrivenClient): string {
  server.settle();
  const next = server.connect(true);
  assert.equal(next.connection.slot, slot);
  next.say("stats-job 1\r\nreserve-job 1\r\n");
  server.settle();
  const reply = next.take();
  assert.match(reply, /state: ready\n/);
  assert.match(reply, /RESERVED 1 1\r\nx\r\n$/);
  return reply;
}

describe("a client that half-closes behind commands whose job moves", () => {
  for (let turns = 0; turns < TURNS_MAX; turns++) {
    it(`is answered where the job is, then forgotten, ${turns} turns later`, () => {
      const { server, client } = halfCloseAfter(turns);
      server.settle();
      assert.ok(client.ended);
      assert.equal(client.take(), `RESERVED 1 1\r\nx\r\n${"UPDATED\r\n".repeat(4)}FOUND 1 1\r\nx\r\n`);
      server.disconnect(client);
      assert.match(expectForgotten(server, client), /tube: e\n/);
    });

    it(`may leave at any moment after that, ${turns} turns later`, () => {
      for (let more = 0; more < TURNS_MAX; more++) {
        const { server, client } = halfCloseAfter(turns);
        for (let turn = 0; turn < more; turn++) server.turn();
        server.disconnect(client);
        expectForgotten(server, client);
      }
    });
  }
});
