// Tests of bodies in a list: every byte survives the JSON, and the line is plain ASCII.

import assert from "node:assert/strict";
import { it } from "node:test";
import { jobRow } from "../../../../src/shard/commands/list-jobs.ts";
import { InProcessServer } from "../../../simulation/server/in-process-server.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";

it("jobRow is ASCII JSON whose body has one character per byte", () => {
  const server = new InProcessServer({ shards: 1, acceptors: 1, random: new SeededRandom(1) });
  const client = server.connect();
  const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  client.write(Buffer.concat([Buffer.from("put 0 0 60 256\r\n"), all, Buffer.from("\r\n")]));
  server.settle();
  const { engine } = server.shards[0]!;
  for (const shown of [1, 32, 200, 256, 4096]) {
    const row = jobRow(engine, engine.find(1), 0, shown);
    assert.match(row, /^[\x20-\x7e]*$/);
    assert.deepEqual(Buffer.from(JSON.parse(row).body, "latin1"), all.subarray(0, shown));
  }
  assert.ok(!("body" in JSON.parse(jobRow(engine, engine.find(1), 0, 0))));
});
