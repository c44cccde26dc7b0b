import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Replies } from "../../../../src/acceptor/connection/replies.ts";
import { HandDrivenServer } from "../../../support/in-process/hand-driven-server.ts";

const SHARDS = 5;

/** The replies of a connection with commands in flight. */
function repliesWith(shard: number, underWay: number, reserves = 0): Replies {
  const { replies } = new HandDrivenServer(SHARDS).connect(true).connection;
  for (let i = 0; i < underWay; i++) replies.noteSent(shard);
  replies.reservesUnderWay = reserves;
  return replies;
}

describe("the order of a connection's commands", () => {
  it("delays a command for another shard until all before it are answered", () => {
    const replies = repliesWith(3, 2);
    assert.ok(replies.maySend(3));
    assert.ok(!replies.maySend(4));
    assert.ok(!replies.noteAnswered());
    assert.ok(!replies.maySend(4));
    assert.ok(replies.noteAnswered());
    assert.ok(replies.maySend(4));
  });

  it("has a window of 256 commands, and of 128 with a reserve among them", () => {
    assert.ok(repliesWith(0, 255).maySend(0));
    assert.ok(!repliesWith(0, 256).maySend(0));
    assert.ok(repliesWith(0, 127, 1).maySend(0));
    assert.ok(!repliesWith(0, 128, 1).maySend(0));
  });

  it("keeps a put from taking its id behind a reserve that may wait", () => {
    const replies = repliesWith(0, 2, 1);
    assert.ok(replies.maySend(0));
    assert.ok(!replies.mayPut(0, 0));
    replies.noteAnswered();
    assert.ok(!replies.mayPut(0, 0), "as long as anything is under way it may be the reserve");
    replies.noteAnswered();
    assert.ok(replies.mayPut(0, 0));
  });

  it("limits bodies of puts in flight to 128 KiB", () => {
    assert.ok(repliesWith(0, 0).mayPut(0, 2 ** 30), "the first may have any size");
    assert.ok(repliesWith(0, 2).mayPut(0, 64 * 1024));
    assert.ok(!repliesWith(0, 3).mayPut(0, 64 * 1024));
  });

  it("accepts no more answers than commands", () => {
    assert.throws(() => repliesWith(0, 0).noteAnswered(), /only a command in flight is answered/);
  });

  it("has commands of one shard in flight only", () => {
    assert.throws(() => repliesWith(3, 1).noteSent(4), /all commands in flight belong to one shard/);
  });
});
