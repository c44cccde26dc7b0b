// Tests of puts on their way to a shard, by the size of their bodies.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const PUTS = 3;

describe("a connection", () => {
  for (const [how, bodyBytes] of [
    ["sent whole", 10],
    ["sent in pieces", 200_000],
  ] as const) {
    it(`counts a put that is ${how} once for the affinity of its connection`, () => {
      const server = new HandDrivenServer(2);
      const client = server.connect(true);
      for (let put = 0; put < PUTS; put++) {
        client.say(`put 0 0 60 ${bodyBytes}\r\n${"x".repeat(bodyBytes)}\r\n`);
        server.settle();
        assert.match(client.take(), /^INSERTED \d+\r\n$/);
      }
      const { affinity, shard } = client.connection.replies;
      assert.deepEqual([affinity.shard, affinity.streak], [shard, PUTS]);
    });
  }
});
