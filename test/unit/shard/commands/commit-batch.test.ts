// Tests of a commit by one client while another client's `open-batch` is on its way to all shards.

import assert from "node:assert/strict";
import { it } from "node:test";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

it("commits a batch that not all shards know yet", () => {
  const server = new HandDrivenServer(4);
  const [opener, other] = [server.connect(true), server.connect(true)];
  opener.say("open-batch nightly\r\n");
  other.say("commit-batch nightly\r\n");
  server.settle();
  assert.equal(opener.take(), "OPENED\r\n");
  assert.equal(other.take(), "COMMITTED\r\n");
  other.say("inspect-batch nightly\r\n");
  server.settle();
  assert.match(other.take(), /^state: complete$/m);
  opener.say("put-in-tube late 0 0 60 1 batch=nightly\r\nx\r\n");
  server.settle();
  assert.match(opener.take(), /^BATCH_C/);
});
