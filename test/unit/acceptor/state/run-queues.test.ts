import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { PendingReplies, type RunQueueEntry, RunQueues } from "../../../../src/acceptor/state/run-queues.ts";

class Entry implements RunQueueEntry {
  dirty = false;
  waitsForRoom = false;
  proceedsLater = false;
  waitsForLog = false;
  isDurable = false;
  readonly did: string[];
  readonly name: string;
  /** Called when it goes on. */
  onProceed: () => void = () => {};

  constructor(name: string, did: string[]) {
    this.name = name;
    this.did = did;
  }

  proceed(): void {
    this.did.push(`${this.name} proceeds`);
    this.onProceed();
  }

  flush(): void {
    this.did.push(`${this.name} flushes`);
  }
}

function stage() {
  const did: string[] = [];
  return { did, runQueues: new RunQueues(), a: new Entry("a", did), b: new Entry("b", did) };
}

describe("RunQueues", () => {
  it("lists an entry once, however often it is added", () => {
    const { did, runQueues, a, b } = stage();
    for (const entry of [a, b, a]) runQueues.markDirty(entry);
    runQueues.flush(false);
    runQueues.flush(false);
    assert.deepEqual(did, ["a flushes", "b flushes"]);
  });

  it("lets an entry add itself again for the next turn, not for this one", () => {
    const { did, runQueues, a } = stage();
    a.onProceed = () => runQueues.proceedLater(a);
    runQueues.proceedLater(a);
    runQueues.letProceed();
    assert.deepEqual(did, ["a proceeds"]);
    assert.deepEqual(runQueues.toProceed, [a]);
    runQueues.letProceed();
    assert.equal(did.length, 2);
  });

  it("resumes all entries that waited for room, and none is still in the list", () => {
    const { did, runQueues, a, b } = stage();
    a.onProceed = () => assert.ok(!b.waitsForRoom);
    b.onProceed = () => runQueues.waitForRoom(b);
    runQueues.waitForRoom(a);
    runQueues.waitForRoom(b);
    runQueues.retryRoom();
    assert.deepEqual(did, ["a proceeds", "b proceeds"]);
    assert.ok(b.waitsForRoom && !a.waitsForRoom);
    assert.deepEqual(runQueues.waitingForRoom, [b]);
  });

  it("flushes connections whose records are in the log, and keeps the others", () => {
    const { did, runQueues, a, b } = stage();
    runQueues.waitForLog(a);
    runQueues.waitForLog(b);
    assert.ok(runQueues.waitingForLog.length > 0 && !runQueues.hasDurable);
    runQueues.flush(true);
    assert.deepEqual(did, []);
    b.isDurable = true;
    assert.ok(runQueues.hasDurable);
    runQueues.flush(false);
    assert.deepEqual(did, [], "no connection is asked unless the log moved");
    runQueues.flush(true);
    assert.deepEqual(did, ["b flushes"]);
    assert.ok(a.waitsForLog && !b.waitsForLog);
    assert.deepEqual(runQueues.waitingForLog, [a]);
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
