// Tests of reserve-batch whose wait the client's next byte aborts: what follows is executed, in
// order, and jobs that come later stay ready.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { JobState } from "../../../../src/engine/jobs/job-table.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";
import { tubeOn } from "../../../support/tube-on.ts";

const WAIT = "reserve-batch 3 60 abort=yes\r\n";

describe("an abortable wait that has begun", () => {
  for (const shards of [1, 2])
    for (const [how, pieces] of [
      ["one command", ["list-tube-used\r\n"]],
      ["several commands", ["list-tube-used\r\nlist-tube-used\r\nlist-tube-used\r\n"]],
      ["a command in pieces", ["l", "ist-tube-", "used\r\n"]],
      ["commands of two sends", ["list-tube-used\r\nuse a\r\nuse default\r\n", "list-tube-used\r\n"]],
    ] as const)
      it(`ends with ${how}, ${shards} shards, time after time`, () => {
        const server = new HandDrivenServer(shards);
        const client = server.connect(true);
        for (let time = 0; time < 3; time++) {
          client.say(WAIT);
          server.settle();
          assert.equal(client.take(), "", "there is no job");
          for (const piece of pieces) {
            client.say(piece);
            server.settle();
          }
          const replies = pieces
            .join("")
            .split("\r\n")
            .slice(0, -1)
            .map((line) => `USING ${line.startsWith("use ") ? line.slice(4) : "default"}\r\n`);
          assert.equal(client.take(), `ABORTED\r\n${replies.join("")}`);
        }
        // Nobody waits any more.
        const tube = tubeOn(0, shards);
        client.say(`put-in-tube ${tube} 0 0 60 1\r\nx\r\n`);
        server.settle();
        assert.equal(client.take(), "INSERTED 1\r\n");
        assert.equal(server.shards[0]!.engine.jobCounts[JobState.Ready], 1);
      });

  it("leaves a job that comes afterwards to the next one who waits", () => {
    const server = new HandDrivenServer(1);
    const [first, second] = [server.connect(true), server.connect(true)];
    first.say(WAIT);
    server.settle();
    second.say(WAIT);
    server.settle();
    first.say("put 0 0 60 1\r\nx\r\n");
    server.settle();
    assert.equal(first.take(), "ABORTED\r\nINSERTED 1\r\n");
    assert.match(second.take(), /^RESERVED_BATCH 1\r\n/);
  });

  for (const shards of [1, 2])
    it(`ends at once if the next commands are there with it, ${shards} shards`, () => {
      const server = new HandDrivenServer(shards);
      const client = server.connect(true);
      const puts = [0, 1, 0].map(
        (shard) => `put-in-tube ${tubeOn(shard % shards, shards)} 0 0 60 1\r\nx\r\n`,
      );
      for (let time = 0; time < 3; time++) {
        client.say(`${WAIT}list-tube-used\r\n${WAIT}${puts.join("")}`);
        server.settle();
        const ids = [1, 2, 3].map((id) => `INSERTED ${3 * time + id}\r\n`);
        assert.equal(client.take(), `ABORTED\r\nUSING default\r\nABORTED\r\n${ids.join("")}`);
      }
    });
});
