// Tests that only a batch that is opened takes an id.

import assert from "node:assert/strict";
import { it } from "node:test";
import { BatchClient } from "../../../simulation/batches/batch-client.ts";
import { InProcessServer } from "../../../simulation/server/in-process-server.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

for (const shards of [1, 3])
  it(`an open-batch that is refused takes no id, with ${shards} shards`, () => {
    const server = new InProcessServer({ shards, acceptors: 1, random: new SeededRandom(1) });
    const client = new BatchClient(server.connect());
    const ask = (request: string): string => {
      let reply = "";
      client.ask(request, ({ line, body }) => {
        reply = body || line;
      });
      server.settle();
      client.take();
      return reply;
    };
    assert.equal(ask("open-batch b"), "OPENED");
    for (let again = 0; again < 3; again++) assert.equal(ask("open-batch b"), "BATCH_EXISTS");
    assert.match(ask("list-batches"), /name: "b", number: 1,/);
    assert.equal(ask("put-in-tube t 0 0 60 1\r\nx"), "INSERTED 2");
  });
