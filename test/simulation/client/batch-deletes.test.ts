// Tests of the simulator's view of delete-batch: no reply comes too early, and no correct one is
// rejected.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BatchDeletes } from "./batch-deletes.ts";

const [YES, NO, ELSEWHERE] = [
  [true, true],
  [false, true],
  [false, false],
] as const;

describe("BatchDeletes", () => {
  it("knows an id once it was searched as often as it is named, also on different shards", () => {
    const batch = new BatchDeletes([7, 7, 7, 8]);
    // A client holds it, releases it, and it moves: the rest of the batch finds it on the other
    // shard.
    batch.note(0, 7, ...NO);
    batch.note(0, 7, ...ELSEWHERE);
    batch.note(0, 7, ...ELSEWHERE);
    batch.note(0, 8, ...YES);
    assert.equal(batch.isDone, false);
    batch.note(1, 7, ...YES);
    assert.equal(batch.isDone, false);
    batch.note(1, 7, ...NO);
    assert.equal(batch.reply, "DELETED_BATCH 2 2 7 7\r\n");
  });

  it("isn't answered while an id was searched only where its job can't be", () => {
    const batch = new BatchDeletes([7, 8]);
    batch.note(0, 8, ...NO);
    batch.note(0, 7, ...ELSEWHERE);
    batch.note(1, 7, ...ELSEWHERE);
    assert.throws(() => batch.reply, /when all of its jobs were looked for/);
    batch.note(2, 7, ...NO);
    assert.equal(batch.reply, "DELETED_BATCH 0 2 7 8\r\n");
  });

  it("allows a question to each shard as often as an id is named, and again while it is unknown", () => {
    const batch = new BatchDeletes([7, 7]);
    batch.note(0, 7, ...NO);
    assert.equal(batch.expects(0, 7), true);
    batch.note(0, 7, ...NO);
    assert.equal(batch.expects(0, 7), false);
    assert.equal(batch.expects(1, 7), true);
    assert.equal(batch.expects(1, 8), false);
  });
});
