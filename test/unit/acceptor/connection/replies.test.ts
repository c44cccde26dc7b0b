import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PendingReplies } from "../../../../src/acceptor/connection/acceptor-state.ts";
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

describe("the connections that expect an answer at any moment", () => {
  const newConnection = () => ({ expectsSince: -1, askedSince: -1 });
  const countsOf = ({ expecting, asking }: PendingReplies): number[] => [expecting, asking];

  it("are counted once each, as long as they have something in flight", () => {
    const pending = new PendingReplies();
    const [a, b] = [newConnection(), newConnection()];
    for (let time = 0; time < 2; time++) {
      pending.expect(a);
      pending.expect(a);
      assert.deepEqual(countsOf(pending), [1, time + 1]);
      pending.expect(b);
      assert.deepEqual(countsOf(pending), [2, 2]);
      pending.expectNothing(b);
      pending.expectNothing(b);
      assert.deepEqual(countsOf(pending), [1, 2]);
      pending.expectNothing(a);
      assert.deepEqual(countsOf(pending), [0, 2], "both have asked");
    }
  });

  it("are not counted any more once they leave for another thread, and counted when they come back", () => {
    const pending = new PendingReplies();
    const [a, b] = [newConnection(), newConnection()];
    for (let time = 0; time < 2; time++) {
      pending.expect(a);
      pending.expect(b);
      pending.expectNothing(b);
      pending.forget(a);
      assert.deepEqual(countsOf(pending), [0, 1]);
      pending.forget(b);
      pending.forget(b);
      assert.deepEqual(countsOf(pending), [0, 0]);
    }
  });

  it("wait for a job when the thread has given up, until they ask again", () => {
    const pending = new PendingReplies();
    const [a, b] = [newConnection(), newConnection()];
    for (let time = 0; time < 2; time++) {
      pending.expect(a);
      pending.expect(b);
      assert.ok(!pending.hasGivenUp(a));
      pending.giveUp();
      assert.deepEqual([...countsOf(pending), pending.hasGivenUp(a)], [0, 0, true]);
      pending.forget(b);
      assert.deepEqual(countsOf(pending), [0, 0], "it was not counted");
      pending.expect(a);
      assert.deepEqual(countsOf(pending), [1, 1]);
      pending.giveUp();
    }
  });
});
