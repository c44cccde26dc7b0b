// Tests of commands behind a reserve-job whose job moves to another shard: they know that the job
// is held there.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { HandDrivenServer } from "../../support/in-process/hand-driven-server.ts";

const SHARDS = 4;
const TURNS_MAX = 10;

/**
 * The replies to a client that reserves job 1 and sends `line`, so many turns after a move of the
 * job began.
 */
function answersTo(line: string, turns: number): string {
  const server = new HandDrivenServer(SHARDS);
  const mover = server.connect(true);
  mover.say("put 0 0 1 1\r\nx\r\n");
  server.settle();
  assert.equal(mover.take(), "INSERTED 1\r\n");
  mover.say("move-jobs default a\r\n");
  for (let turn = 0; turn < turns; turn++) server.turn();
  const client = server.connect(true);
  client.say(`reserve-job 1\r\n${line}\r\n`);
  server.settle();
  assert.match(mover.take(), /^MOVED [01]\r\n/);
  return client.take();
}

describe("after a reserve-job whose job moves", () => {
  for (let turns = 0; turns < TURNS_MAX; turns++) {
    it(`touch-all touches it, ${turns} turns later`, () => {
      assert.equal(answersTo("touch-all", turns), "RESERVED 1 1\r\nx\r\nTOUCHED_ALL 1\r\n");
    });

    it(`a reserve heeds its deadline, ${turns} turns later`, () => {
      assert.equal(answersTo("reserve-with-timeout 0", turns), "RESERVED 1 1\r\nx\r\nDEADLINE_SOON\r\n");
    });
  }
});
