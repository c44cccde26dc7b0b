// Test of a client that leaves at the moment when its wait over several shards is due.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Waiting } from "../../../src/engine/state/session.ts";
import type { ShardSession } from "../../../src/shard/sessions/shard-session.ts";
import { HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";

it("a client leaves when its wait is due", () => {
  const server = new HandDrivenServer(2);
  const client = server.connect(true);
  for (const tube of ["a", "b", "c", "d"]) client.say(`watch ${tube}\r\n`);
  client.say("reserve-with-timeout 1\r\n");
  server.settle();
  let waits = 0;
  for (const shard of server.shards)
    for (const session of Reflect.get(shard, "sessions") as (ShardSession | undefined)[]) {
      if (session?.engineSession.waiting !== Waiting.Shared) continue;
      waits++;
      // The clock is read between the beginning of a turn and the message of the end.
      shard.nowMs += 2000;
      shard.end(session);
      assert.equal(session.ended, true);
    }
  assert.ok(waits > 0, "the client waits on a shard for jobs of several");
});
