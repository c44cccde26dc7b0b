// Tests of the books of batches: what is live in which segment, and what the log knows.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BatchIndex, type Segment, SegmentTable } from "../../../../src/binlog/segments/books.ts";
import { type BatchFacts, BatchState } from "../../../../src/schema/batch.ts";

const STATE_BYTES = 100;
const TALLY_BYTES = 40;

function factsOf(number: number, state: BatchState = BatchState.Open): BatchFacts {
  return {
    ...{ number, name: `b${number}`, state, outcome: 0, keepMs: 0, openedAtMs: 1, completeAtMs: 0 },
    ...{ allDone: 0, allFailed: 0 },
  };
}

class Books {
  readonly segments = new SegmentTable();
  readonly index = new BatchIndex(this.segments);

  constructor() {
    for (const number of [3, 4, 5])
      this.segments.add({
        ...{ number, salt: 1, createdAtMs: 0, fileBytes: 4096, usedBytes: 64, liveBytes: 0 },
        ...{ sealed: false, handle: undefined },
      });
  }

  set(number: number, segment: number, state?: BatchState): void {
    this.index.set(factsOf(number, state), segment, 64 * number, STATE_BYTES);
  }

  tally(number: number, shard: number, segment: number, done = 1, failed = 0): void {
    this.index.setTally({ number, shard, done, failed }, segment, 64 * number + shard, TALLY_BYTES);
  }

  /** Live bytes by segment. */
  live(): number[] {
    const live = this.segments.all.map(({ liveBytes }) => liveBytes);
    assert.equal(
      live.reduce((sum, bytes) => sum + bytes, 0),
      this.segments.liveBytes,
    );
    return live;
  }

  known(): [number, [number, number, number][]][] {
    return this.index.list().map(({ facts, tallies }) => {
      for (const { number } of tallies) assert.equal(number, facts.number);
      return [facts.number, tallies.map(({ shard, done, failed }) => [shard, done, failed])];
    });
  }
}

describe("BatchIndex", () => {
  it("knows the latest state and tallies, and only these are live", () => {
    const books = new Books();
    books.set(7, 3);
    books.set(2, 3);
    books.tally(7, 1, 3, 5, 1);
    books.tally(7, 0, 4);
    assert.deepEqual(books.live(), [2 * STATE_BYTES + TALLY_BYTES, TALLY_BYTES, 0]);
    assert.deepEqual(books.known(), [
      [2, []],
      [
        7,
        [
          [0, 1, 0],
          [1, 5, 1],
        ],
      ],
    ]);
    books.set(7, 5, BatchState.Committed);
    books.tally(7, 1, 4, 6, 2);
    assert.deepEqual(books.live(), [STATE_BYTES, 2 * TALLY_BYTES, STATE_BYTES]);
    assert.deepEqual(books.known()[1], [
      7,
      [
        [0, 1, 0],
        [1, 6, 2],
      ],
    ]);
  });

  it("drops the tallies of a complete batch, and takes no later ones", () => {
    const books = new Books();
    books.set(7, 3);
    books.tally(7, 0, 3);
    books.tally(7, 2, 4);
    books.set(7, 4, BatchState.Complete);
    assert.deepEqual(books.live(), [0, STATE_BYTES, 0]);
    books.tally(7, 0, 5);
    assert.deepEqual(books.live(), [0, STATE_BYTES, 0]);
    assert.deepEqual(books.known(), [[7, []]]);
  });

  it("keeps nothing of a forgotten batch", () => {
    const books = new Books();
    books.set(7, 3);
    books.tally(7, 0, 4);
    books.set(7, 5, BatchState.Forgotten);
    assert.deepEqual(books.live(), [0, 0, 0]);
    assert.deepEqual(books.known(), []);
    assert.equal(books.index.isAt(7, 5, 64 * 7), false);
    books.index.endRecovery();
    books.tally(7, 0, 5);
    assert.deepEqual(books.live(), [0, 0, 0], "a tally that its batch's end overtook");
  });

  it("takes tallies before the state during recovery, and drops those that stay alone", () => {
    const books = new Books();
    books.tally(7, 0, 3);
    books.tally(8, 0, 3);
    books.set(7, 4);
    assert.deepEqual(books.live(), [2 * TALLY_BYTES, STATE_BYTES, 0]);
    books.index.endRecovery();
    assert.deepEqual(books.live(), [TALLY_BYTES, STATE_BYTES, 0]);
    assert.deepEqual(books.known(), [[7, [[0, 1, 0]]]]);
    books.tally(7, 1, 5, 3);
    assert.deepEqual(books.known(), [
      [
        7,
        [
          [0, 1, 0],
          [1, 3, 0],
        ],
      ],
    ]);
  });

  it("tells the records in use from those that have been replaced", () => {
    const books = new Books();
    const { index } = books;
    books.set(7, 3);
    books.tally(7, 1, 3);
    const [stateAt, tallyAt] = [64 * 7, 64 * 7 + 1];
    assert.ok(index.isAt(7, 3, stateAt));
    assert.ok(!index.isAt(7, 4, stateAt) && !index.isAt(7, 3, stateAt + 1) && !index.isAt(8, 3, stateAt));
    assert.ok(index.tallyIsAt(7, 1, 3, tallyAt));
    assert.ok(!index.tallyIsAt(7, 0, 3, tallyAt) && !index.tallyIsAt(8, 1, 3, tallyAt));
    assert.ok(!index.tallyIsAt(7, 1, 4, tallyAt) && !index.tallyIsAt(7, 1, 3, tallyAt + 1));
    books.set(7, 4);
    books.tally(7, 1, 4, 2);
    assert.ok(index.isAt(7, 4, stateAt) && !index.isAt(7, 3, stateAt));
    assert.ok(index.tallyIsAt(7, 1, 4, tallyAt) && !index.tallyIsAt(7, 1, 3, tallyAt));
  });
});

// Tests of the table of segments: sizes and live bytes add up.

const segment = (number: number, fileBytes: number, usedBytes: number): Segment => ({
  ...{ number, salt: 1, createdAtMs: 0, fileBytes, usedBytes, liveBytes: 0 },
  ...{ sealed: false, handle: undefined },
});

it("SegmentTable finds segments by their numbers, and counts their bytes", () => {
  const table = new SegmentTable();
  assert.equal(table.oldest, undefined);
  assert.equal(table.get(1), undefined);
  assert.equal(table.fileBytes(), 0);
  const [first, second, third] = [segment(7, 1000, 900), segment(8, 2000, 500), segment(9, 400, 0)];
  for (const each of [first, second, third]) table.add(each);
  assert.equal(table.get(8), second);
  assert.equal(table.get(6), undefined);
  assert.equal(table.get(10), undefined);
  assert.equal(table.fileBytes(), 3400);
  for (const each of [first, second]) each.fileBytes = each.usedBytes;
  table.seal(first);
  assert.deepEqual([table.sealedBytes, table.sealedCount], [900, 1]);
  assert.equal(table.fileBytes(), 1800);
  table.seal(second);
  assert.equal(table.fileBytes(), 1800);
  assert.throws(() => table.seal(second), /sealed once/);
});

it("SegmentTable counts live bytes, and lets only an empty segment go", () => {
  const table = new SegmentTable();
  for (const number of [7, 8]) table.add(segment(number, 1000, 900));
  table.addLive(7, 100);
  table.addLive(8, 50);
  assert.deepEqual([table.liveBytes, table.get(7)!.liveBytes], [150, 100]);
  assert.throws(() => table.removeOldest(), /nothing in a removed segment is live/);
});

it("SegmentTable forgets a segment that goes, sealed or not", () => {
  const table = new SegmentTable();
  for (const number of [7, 8]) table.add(segment(number, 1000, 1000));
  table.addLive(7, 100);
  table.addLive(7, -100);
  table.addLive(8, 50);
  table.seal(table.oldest!);
  assert.equal(table.removeOldest().number, 7);
  assert.deepEqual([table.oldest?.number, table.sealedBytes, table.sealedCount], [8, 0, 0]);
  assert.deepEqual([table.fileBytes(), table.liveBytes], [1000, 50]);
  table.addLive(8, -50);
  table.removeOldest();
  assert.deepEqual([table.all.length, table.sealedBytes, table.sealedCount], [0, 0, 0]);
  assert.throws(() => table.addLive(8, 1), /lie in a segment of the log/);
});
