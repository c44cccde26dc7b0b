// Tests of the table of segments: sizes and live bytes add up.

import assert from "node:assert/strict";
import { it } from "node:test";
import { type Segment, SegmentTable } from "../../../../src/binlog/segments/books.ts";

const segment = (number: number, fileBytes: number, usedBytes: number): Segment => ({
  ...{ number, salt: 1, createdAtMs: 0, fileBytes, usedBytes, liveBytes: 0 },
  ...{ sealed: false, handle: undefined },
});

it("SegmentTable finds segments by their numbers, and counts their bytes", () => {
  const table = new SegmentTable();
  assert.equal(table.oldest, undefined);
  assert.equal(table.get(1), undefined);
  assert.deepEqual([table.fileBytes(), table.spareBytes()], [0, 0]);
  const [first, second, third] = [segment(7, 1000, 900), segment(8, 2000, 500), segment(9, 400, 0)];
  for (const each of [first, second, third]) table.add(each);
  assert.equal(table.get(8), second);
  assert.equal(table.get(6), undefined);
  assert.equal(table.get(10), undefined);
  assert.deepEqual([table.fileBytes(), table.spareBytes()], [3400, 100 + 1500 + 400]);
  for (const each of [first, second]) each.fileBytes = each.usedBytes;
  table.seal(first);
  assert.deepEqual([table.sealedBytes, table.sealedCount], [900, 1]);
  assert.deepEqual([table.fileBytes(), table.spareBytes()], [1800, 400]);
  table.seal(second);
  assert.deepEqual([table.fileBytes(), table.spareBytes()], [1800, 400]);
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
