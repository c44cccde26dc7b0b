import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Lane } from "../../../../src/acceptor/state/lane.ts";

function laneWith(shard: number, underWay: number, reserves = 0): Lane {
  const lane = new Lane();
  for (let i = 0; i < underWay; i++) lane.sent(shard);
  lane.reservesUnderWay = reserves;
  return lane;
}

describe("the order of a connection's commands", () => {
  it("delays a command for another shard until all before it are answered", () => {
    const lane = laneWith(3, 2);
    assert.ok(lane.maySend(3));
    assert.ok(!lane.maySend(4));
    assert.ok(!lane.answered());
    assert.ok(!lane.maySend(4));
    assert.ok(lane.answered());
    assert.ok(lane.maySend(4));
  });

  it("has a window of 256 commands, and of 128 with a reserve among them", () => {
    assert.ok(laneWith(0, 255).maySend(0));
    assert.ok(!laneWith(0, 256).maySend(0));
    assert.ok(laneWith(0, 127, 1).maySend(0));
    assert.ok(!laneWith(0, 128, 1).maySend(0));
  });

  it("keeps a put from taking its id behind a reserve that may wait", () => {
    const lane = laneWith(0, 2, 1);
    assert.ok(lane.maySend(0));
    assert.ok(!lane.mayPut(0, 0));
    lane.answered();
    assert.ok(!lane.mayPut(0, 0), "as long as anything is under way it may be the reserve");
    lane.answered();
    assert.ok(lane.mayPut(0, 0));
  });

  it("limits bodies of puts in flight to 128 KiB", () => {
    assert.ok(laneWith(0, 0).mayPut(0, 2 ** 30), "the first may have any size");
    assert.ok(laneWith(0, 2).mayPut(0, 64 * 1024));
    assert.ok(!laneWith(0, 3).mayPut(0, 64 * 1024));
  });

  it("accepts no more answers than commands", () => {
    assert.throws(() => new Lane().answered(), /only a command under way is answered/);
  });
});
