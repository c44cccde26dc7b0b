// A client that half-closes behind commands whose job goes to other shards meanwhile: each is answered, and its end comes last.

import assert from "node:assert/strict";
import { it } from "node:test";
import { HandDrivenServer } from "../../support/hand-driven-server.ts";

it("commands behind a move are answered where the job is, then the end comes", () => {
  const server = new HandDrivenServer(4);
  const putter = server.connect(true);
  putter.say("put-in-tube a 0 0 60 1\r\nx\r\n");
  server.settle();
  assert.equal(putter.take(), "INSERTED 1\r\n");
  const client = server.connect(true);
  const moves = ["b", "c", "d", "e"].map((tube) => `update-job 1 tube=${tube}\r\n`).join("");
  client.say(`reserve-job 1\r\n${moves}peek 1\r\n`);
  client.connection.onEnd();
  server.settle();
  assert.equal(client.take(), `RESERVED 1 1\r\nx\r\n${"UPDATED\r\n".repeat(4)}FOUND 1 1\r\nx\r\n`);
  assert.ok(client.ended);
  putter.say("stats-job 1\r\n");
  server.settle();
  assert.match(putter.take(), /tube: e\n/);
});
