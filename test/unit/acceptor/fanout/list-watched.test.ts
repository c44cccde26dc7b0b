// The size that `inspect-watched` announces is known without the text.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { WeightedServer } from "./weighted-server.ts";

describe("inspect-watched", () => {
  it("announces its size after weights were given, changed and forgotten", () => {
    const client = new WeightedServer({ shards: 2, acceptors: 1 }).client();
    const changes = ["watch a weight=1000", "watch b", "watch a weight=7", "ignore a", "ignore a", "watch a"];
    changes.push("watch b weight=10", "watch c weight=1", "ignore c", "reserve-order weighted-time");
    for (const change of ["watch default", ...changes]) {
      client.say(change);
      const [, bytes, text] = /^OK (\d+)\r\n(.*)\r\n$/s.exec(client.say("inspect-watched"))!;
      assert.equal(Number(bytes), text!.length, `after ${change}`);
    }
    assert.match(client.say("inspect-watched"), /"b","weight":10}\n- {"tube":"a","weight":1}\n\r\n$/);
  });
});
