// Tests of an acceptor's slots: one is reused only when nothing can refer to its previous
// connection.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const nobody = (): void => {};

describe("AcceptorCore reuses a slot", () => {
  it("only after all shards that knew the connection have forgotten it", () => {
    const server = new HandDrivenServer(2);
    const { acceptor, shards } = server;
    const gone = server.connect(true);
    // Tubes on both shards.
    for (let tube = 0; tube < 8; tube++) gone.say(`watch t${tube}\r\n`);
    server.settle();
    const { slot } = gone.connection;
    server.disconnect(gone);
    acceptor.publish(nobody);
    const slots: number[] = [];
    const connectOnce = (): void => void slots.push(server.connect(true).connection.slot);
    connectOnce();
    for (const shard of shards) {
      assert.ok(!slots.includes(slot), "a shard may still answer the connection that is gone");
      shard.step(1000);
      for (const port of shard.ports) port.ring.publish();
      acceptor.takeAnswers(nobody);
      acceptor.flush();
      connectOnce();
    }
    assert.equal(slots.at(-1), slot);
    assert.equal(new Set(slots).size, slots.length);
  });

  it("only after its socket is gone, whatever the shards say", () => {
    const server = new HandDrivenServer(1);
    const client = server.connect(true);
    client.say("watch a\r\nquit\r\n");
    server.settle();
    assert.equal(client.ended, true, "the server has ended it");
    const { slot } = client.connection;
    assert.notEqual(server.connect(true).connection.slot, slot);
    server.disconnect(client);
    assert.equal(server.connect(true).connection.slot, slot);
  });

  it("at once if shards know the connection only from its start, and counts open ones", () => {
    const server = new HandDrivenServer(1);
    const clients = Array.from({ length: 5 }, () => server.connect(true));
    server.settle();
    assert.equal(server.acceptor.open, 5);
    for (const client of clients) server.disconnect(client);
    server.disconnect(clients[0]!);
    assert.equal(server.acceptor.open, 0, "an end that is told twice counts once");
    server.settle();
    const slots = Array.from({ length: 5 }, () => server.connect(true).connection.slot);
    assert.deepEqual(slots.sort(), [0, 1, 2, 3, 4], "each slot is free once");
  });
});

describe("AcceptorCore that stops", () => {
  it("ends its clients when everything is answered", () => {
    const server = new HandDrivenServer(2);
    const waiting = server.connect(true);
    waiting.say("reserve\r\n");
    server.settle();
    server.acceptor.endAll();
    server.settle();
    assert.equal(waiting.take(), "TIMED_OUT\r\n");
    assert.ok(waiting.ended);
  });
});
