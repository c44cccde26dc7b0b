// Tests of the table of tubes that the shards' rows make.

import assert from "node:assert/strict";
import { it } from "node:test";
import { ControlClient } from "../../../../src/http/link/control-client.ts";
import { TubeCache } from "../../../../src/http/state/tube-cache.ts";
import { TubeField } from "../../../../src/message/control.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

it("A tube whose best job is dead is known as a dead-letter tube, on whichever shard", async () => {
  const server = new HandDrivenServer(4, undefined, { http: true });
  const client = server.connect(true);
  for (const letter of "abcdef") {
    client.say(`set-tube ${letter} max-attempts=1 dead-letter=${letter}-dead\r\nuse ${letter}\r\n`);
    client.say(`put 0 0 60 1\r\nx\r\nwatch ${letter}\r\nreserve\r\n`);
    server.settle();
    const [, id] = /^RESERVED (\d+) /m.exec(client.take())!;
    client.say(`release ${id} 0 0\r\n`);
    server.settle();
  }
  for (const letter of "abcdef") client.say(`use ${letter}\r\nput 0 0 60 1\r\ny\r\n`);
  server.settle();
  const cache = new TubeCache(new ControlClient(server.http!, () => {}), () => 1000);
  const table = cache.fresh();
  server.settle();
  const tubes = await table;
  for (const letter of "abcdef") {
    assert.equal(tubes.get(`${letter}-dead`)?.get(TubeField.HoldsDead), 1, letter);
    assert.equal(tubes.get(letter)?.get(TubeField.HoldsDead), 0, letter);
  }
});
