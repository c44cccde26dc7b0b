// Tests of a shard whose acceptor takes no replies, or sends more than a turn may handle.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";

const BODY_BYTES = 60_000;
const CLIENTS = 60;
/** More than end in one turn. */
const WATCHES = 5000;
/** Size of the ring to the acceptor. */
const RING_BYTES = 1 << 20;

const nobody = (): void => {};

describe("ShardCore", () => {
  it("takes no command while its replies find no room, sleeps, and loses nothing", () => {
    const server = new HandDrivenServer(1);
    const { acceptor } = server;
    const shard = server.shards[0]!;
    const keeper = server.connect(true);
    keeper.say(`put 0 0 60 ${BODY_BYTES}\r\n${"x".repeat(BODY_BYTES)}\r\n`);
    const clients = Array.from({ length: CLIENTS }, () => server.connect(true));
    server.settle();
    for (const client of clients) client.say("peek 1\r\n");
    acceptor.publish(nobody);
    const ring = shard.ports[0]!.ring;
    let taken = shard.step(1000);
    // Whole replies: the room that is left is that of the largest one.
    assert.ok(taken < CLIENTS && ring.used > RING_BYTES / 2 && ring.used <= RING_BYTES, `${ring.used}`);
    assert.equal(shard.hasWork, false, "it may sleep until there is room");
    assert.equal(shard.step(1001), 0);
    while (taken < CLIENTS) {
      ring.publish();
      acceptor.takeAnswers(nobody);
      acceptor.flush();
      assert.equal(shard.hasWork, true);
      taken += shard.step(1002);
    }
    server.settle();
    const reply = `FOUND 1 ${BODY_BYTES}\r\n${"x".repeat(BODY_BYTES)}\r\n`;
    for (const client of clients) assert.ok(client.take() === reply);
  });

  it("keeps jobs for waiters whose replies find no room, and sends them in order", () => {
    const server = new HandDrivenServer(1);
    const { acceptor } = server;
    const shard = server.shards[0]!;
    const producer = server.connect(true);
    producer.say(`put 0 100 60 ${BODY_BYTES}\r\n${"x".repeat(BODY_BYTES)}\r\n`.repeat(CLIENTS));
    server.settle();
    const waiters = Array.from({ length: CLIENTS }, () => server.connect(true));
    for (const waiter of waiters) waiter.say("reserve\r\n");
    server.settle();
    producer.take();
    // One command gives every waiter a job: several times what the ring holds.
    producer.say(`kick ${CLIENTS}\r\n`);
    acceptor.publish(nobody);
    shard.step(1000);
    const port = shard.ports[0]!;
    assert.equal(port.blocked, true);
    assert.equal(shard.hasWork, false, "it may sleep until there is room");
    producer.say("list-tubes\r\n");
    acceptor.publish(nobody);
    assert.equal(shard.step(1000), 0, "no other command is taken before them");
    server.settle();
    assert.equal(port.blocked, false);
    for (const [index, waiter] of waiters.entries()) {
      const got = waiter.take();
      const lineEnd = got.indexOf("\r\n");
      assert.equal(got.slice(0, lineEnd), `RESERVED ${index + 1} ${BODY_BYTES}`);
      assert.equal(got.length, lineEnd + 2 + BODY_BYTES + 2);
    }
    assert.match(producer.take(), new RegExp(`^KICKED ${CLIENTS}\r\nOK `));
  });

  it("asks for room to continue a list of tubes, also while other replies find some", () => {
    const server = new HandDrivenServer(1, undefined, { ringBytes: 1 << 16 });
    const { acceptor } = server;
    const shard = server.shards[0]!;
    const client = server.connect(true);
    for (let tube = 0; tube < 1000; tube++) client.say(`watch ${tube}${"t".repeat(150)}\r\n`);
    server.settle();
    client.take();
    client.say("list-tubes\r\n");
    acceptor.publish(nobody);
    do shard.step(1000);
    while (shard.hasWork);
    const [port] = shard.ports;
    assert.equal(port!.open, true, "there is room for other replies");
    shard.wantRoom();
    port!.ring.publish();
    let waits = 0;
    acceptor.takeAnswers(() => void waits++);
    assert.equal(waits, 1, "the shard is rung when there is more");
    server.settle();
    assert.match(client.take(), /^OK \d+\r\n/);
  });

  it("gives no job to a client that has left, however long the end of its watches takes", () => {
    const server = new HandDrivenServer(1);
    const watches = Array.from({ length: WATCHES }, (_, number) => `watch tube-${number}\r\n`).join("");
    const [gone, waiter, producer] = [server.connect(true), server.connect(true), server.connect(true)];
    gone.say(`${watches}reserve\r\n`);
    server.settle();
    waiter.say("watch tube-7\r\nreserve\r\n");
    server.settle();
    waiter.take();
    server.disconnect(gone);
    producer.say("put-in-tube tube-7 0 0 60 1\r\nx\r\n");
    server.settle();
    assert.equal(waiter.take(), "RESERVED 1 1\r\nx\r\n");
    producer.take();
    producer.say("stats-job 1\r\nstats-tube tube-7\r\n");
    server.settle();
    const told = producer.take();
    assert.match(told, /\nreserves: 1\n/, "it was reserved once");
    assert.match(told, /\ncurrent-waiting: 0\n/);
    assert.match(told, /\ncurrent-watching: 1\n/);
  });
});
