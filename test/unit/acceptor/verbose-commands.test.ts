// Tests of the -VV output for commands.

import assert from "node:assert/strict";
import { it } from "node:test";
import { HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";

it("-VV prints each command once, also one that waits and is retried", () => {
  const lines: string[] = [];
  const server = new HandDrivenServer(1, (line) => lines.push(line));
  const client = server.connect(true);
  client.say(
    "watch a\r\nignore default\r\nreserve-with-timeout 5\r\nput 0 0 60 1\r\nx\r\nput 0 0 60 1\r\ny\r\nquit\r\n",
  );
  server.settle();
  // Each of these makes the connection look at the put again.
  for (let again = 0; again < 3; again++) client.connection.proceed();
  client.connection.onEnd();
  server.settle();
  assert.equal(client.take(), "WATCHING 2\r\nWATCHING 1\r\nTIMED_OUT\r\nINSERTED 1\r\nINSERTED 2\r\n");
  assert.deepEqual(
    lines.filter((line) => line.startsWith("<")).map((line) => line.split(" command ")[1]?.trim()),
    ["watch", "ignore", "reserve-with-timeout", "put", "put", "quit"],
  );
});

it("-VV prints only the first line of a reply, also of one in pieces", () => {
  const lines: string[] = [];
  const server = new HandDrivenServer(1, (line) => lines.push(line));
  const client = server.connect(true);
  const body = "secret\r\n".repeat(40_000);
  client.say(`put 0 0 60 ${body.length}\r\n${body}\r\n`);
  for (let turn = 0; turn < 5; turn++) {
    server.settle();
    client.read();
  }
  client.say("peek 1\r\nlist-tube-used\r\n");
  for (let turn = 0; turn < 20; turn++) {
    server.settle();
    client.read();
  }
  assert.ok(client.take().endsWith(`${body}\r\nUSING default\r\n`));
  assert.deepEqual(
    lines.filter((line) => line.startsWith(">")).map((line) => line.slice(line.indexOf(" ") + 1)),
    ["reply INSERTED 1", `reply FOUND 1 ${body.length}`, "job 1", "reply USING default"],
  );
});
