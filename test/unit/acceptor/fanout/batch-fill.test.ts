// Unit tests of when a batch that fills is taken, from the counts of its shards.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BatchFill } from "../../../../src/acceptor/fanout/batch-fill.ts";
import type { Signal } from "../../../../src/acceptor/fanout/conversation.ts";
import { WaitView } from "../../../../src/message/request.ts";
import { CandidatesView } from "../../../../src/message/response.ts";
import { U32_MAX } from "../../../../src/protocol/limits.ts";
import { Request } from "../../../../src/protocol/request.ts";

/** The answer of a shard to a count. */
const counted = (shard: number, ready: number, lingerEndsAtMs = Number.POSITIVE_INFINITY): Signal =>
  ({ shard, pri: CandidatesView.word(false, ready), value: lingerEndsAtMs }) as Signal;

function fillsAt(fill: BatchFill, shard: number): number {
  const message = new Request();
  fill.fillWait(message, shard);
  return WaitView.fillsAt(message);
}

describe("a batch that fills", () => {
  it("is taken when all shards together have enough jobs", () => {
    const fill = new BatchFill({ min: 5, lingerMs: Number.POSITIVE_INFINITY }, [0, 2]);
    fill.note(counted(0, 2));
    fill.note(counted(2, 2));
    assert.equal(fill.isDue(100), false);
    fill.note(counted(2, 3));
    assert.equal(fill.isDue(100), true);
    assert.equal(fill.takesFrom, 5);
  });

  it("is reported by a shard with more than its share of the missing jobs", () => {
    const fill = new BatchFill({ min: 10, lingerMs: Number.POSITIVE_INFINITY }, [0, 2]);
    fill.note(counted(0, 1));
    fill.note(counted(2, 4));
    assert.equal(fill.isDue(100), false);
    // Five are missing: as long as no shard has three more, the batch is not full.
    assert.equal(fillsAt(fill, 0), 4);
    assert.equal(fillsAt(fill, 2), 7);
    // A shard without a watched tube waits only for the timeout.
    assert.equal(fillsAt(fill, 1), U32_MAX);
  });

  it("lingers from its first job on, and again if others took all", () => {
    const fill = new BatchFill({ min: 10, lingerMs: 50 }, [0]);
    fill.note(counted(0, 1));
    assert.equal(fill.isDue(100), false);
    assert.equal(fill.lingerEndsAtMs, 150);
    assert.equal(fill.isDue(149), false);
    assert.equal(fill.isDue(150), true);
    assert.equal(fill.takesFrom, 1);
    fill.note(counted(0, 0));
    assert.equal(fill.isDue(160), false);
    assert.equal(fill.lingerEndsAtMs, Number.POSITIVE_INFINITY);
    fill.note(counted(0, 1, 190));
    assert.equal(fill.isDue(189), false);
    assert.equal(fill.isDue(190), true);
  });
});
