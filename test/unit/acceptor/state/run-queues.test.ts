import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type RunQueueEntry, RunQueues } from "../../../../src/acceptor/state/run-queues.ts";

class Entry implements RunQueueEntry {
  dirty = false;
  waitsForRoom = false;
  proceedsLater = false;
  held = false;
  mayFlushHeld = false;
  readonly did: string[];
  readonly name: string;
  /** What it does besides when it goes on. */
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
  return { did, agenda: new RunQueues(), a: new Entry("a", did), b: new Entry("b", did) };
}

describe("RunQueues", () => {
  it("lists an entry once, however often it is added", () => {
    const { did, agenda, a, b } = stage();
    for (const entry of [a, b, a]) agenda.markDirty(entry);
    agenda.flush(false);
    agenda.flush(false);
    assert.deepEqual(did, ["a flushes", "b flushes"]);
  });

  it("lets an entry add itself again for the next turn, not for this one", () => {
    const { did, agenda, a } = stage();
    a.onProceed = () => agenda.proceedLater(a);
    agenda.proceedLater(a);
    agenda.letProceed();
    assert.deepEqual(did, ["a proceeds"]);
    assert.ok(agenda.hasWork);
    agenda.letProceed();
    assert.equal(did.length, 2);
  });

  it("resumes all entries that waited for room, and none is still in the list", () => {
    const { did, agenda, a, b } = stage();
    a.onProceed = () => assert.ok(!b.waitsForRoom);
    b.onProceed = () => agenda.waitForRoom(b);
    agenda.waitForRoom(a);
    agenda.waitForRoom(b);
    agenda.retryRoom();
    assert.deepEqual(did, ["a proceeds", "b proceeds"]);
    assert.ok(agenda.hasWaitingForRoom && b.waitsForRoom && !a.waitsForRoom);
  });

  it("flushes connections whose records are in the log, and keeps the others", () => {
    const { did, agenda, a, b } = stage();
    agenda.holdBack(a);
    agenda.holdBack(b);
    assert.ok(agenda.hasHeld && !agenda.hasDurable);
    agenda.flush(true);
    assert.deepEqual(did, []);
    b.mayFlushHeld = true;
    assert.ok(agenda.hasDurable);
    agenda.flush(false);
    assert.deepEqual(did, [], "no connection is asked unless the log moved");
    agenda.flush(true);
    assert.deepEqual(did, ["b flushes"]);
    assert.ok(agenda.hasHeld && a.held && !b.held);
  });
});
