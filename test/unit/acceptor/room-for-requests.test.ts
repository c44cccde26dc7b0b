// Tests of an acceptor whose ring to a shard is full: it may sleep, and is woken when there is
// room.

import assert from "node:assert/strict";
import { it } from "node:test";
import { HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";

it("AcceptorCore has no work while a ring is full, and the shard rings after it made room", () => {
  const server = new HandDrivenServer(1);
  const { acceptor } = server;
  const [shard] = server.shards;
  const clients = Array.from({ length: 40 }, () => server.connect(true));
  server.settle();
  const body = "x".repeat(60_000);
  for (const client of clients) client.say(`put 0 0 60 ${body.length}\r\n${body}\r\n`);
  const nobody = (): void => {};
  acceptor.publish(nobody);
  for (let turn = 0; turn < 3; turn++) {
    acceptor.takeAnswers(nobody);
    acceptor.flush();
  }
  assert.equal(acceptor.hasWork, false, "it turns without work");
  acceptor.wantRoom();
  assert.equal(acceptor.hasRoomAgain, false);
  shard!.step(1000);
  assert.equal(shard!.requests[0]!.release(), true, "the shard rings");
  assert.equal(acceptor.hasRoomAgain, true);
  assert.equal(acceptor.hasWork, true);
  server.settle();
  for (const client of clients) assert.match(client.take(), /^INSERTED \d+\r\n$/);
  assert.equal(acceptor.hasRoomAgain, false);
});
