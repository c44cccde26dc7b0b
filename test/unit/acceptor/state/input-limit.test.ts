// Tests of input behind waits: bounded in total, and only waiting clients count.

import assert from "node:assert/strict";
import { it } from "node:test";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const KIB = 1024;
/** As acceptor-core.ts has it. */
const ALL_BYTES = 32 * 1024 * KIB;
const EACH_BYTES = 500 * KIB;

function scene() {
  const server = new HandDrivenServer(1);
  const wait = () => {
    const client = server.connect(true);
    client.say("reserve\r\n");
    return client;
  };
  const fill = () => {
    const client = wait();
    for (let sent = 0; sent < EACH_BYTES; sent += 10 * KIB) client.say("peek 1\r\n".repeat((10 * KIB) / 8));
    return client;
  };
  return { server, wait, fill };
}

it("a waiting client is read again after others that had sent too much are gone", () => {
  const { server, wait, fill } = scene();
  const others = Array.from({ length: Math.ceil(ALL_BYTES / (EACH_BYTES - 64 * KIB)) }, fill);
  const client = wait();
  client.say("peek 1\r\n".repeat((100 * KIB) / 8));
  assert.ok(client.paused, "no more is read from it than from others");
  for (const other of others.slice(0, 5)) server.disconnect(other);
  server.settle();
  assert.ok(!client.paused, "there is room for its input again");
});

it("clients that don't wait use nothing of the budget of waiting clients", () => {
  const { server, wait } = scene();
  const keeper = server.connect(true);
  keeper.say(`put 0 0 60 60000\r\n${"x".repeat(60_000)}\r\n`);
  server.settle();
  for (let each = 0; each < 200; each++) {
    const client = server.connect(false);
    client.say("peek 1\r\n");
    server.settle();
    client.say("peek 1\r\n".repeat((256 * KIB) / 8));
  }
  // The one job is taken, so the next reserve waits.
  keeper.say("reserve\r\n");
  server.settle();
  const client = wait();
  client.say("peek 1\r\n".repeat((100 * KIB) / 8));
  assert.ok(!client.paused);
});
