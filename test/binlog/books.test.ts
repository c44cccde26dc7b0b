// Tests that the index of a log in use equals the one that a start builds from the same log: each
// job's position, and what of it is live.

import assert from "node:assert/strict";
import { test } from "node:test";
import { readLog } from "../../src/binlog/recovery/read-log.ts";
import type { RecordIndex } from "../../src/binlog/segments/books.ts";
import { RecordKind } from "../../src/message/record.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { openSample, virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

const STEPS = 4000;

/**
 * Returns the entries of an index by job: the segment of its full record, and the segment and place
 * of its latest update.
 */
function entries(index: RecordIndex): Map<number, number[]> {
  const found = new Map<number, number[]>();
  for (let id = 1; id <= index.maxId; id++) {
    if (index.fullSegmentOf(id) === 0) continue;
    const updateSegment = index.updateSegmentOf(id);
    // The place of an update that a later full record has made void says nothing.
    const updateOffset = updateSegment === 0 ? 0 : index.updateOffsetOf(id);
    found.set(id, [index.fullSegmentOf(id), updateSegment, updateOffset]);
  }
  return found;
}

test("a log in use and a start keep the same books through pieces and compaction", async () => {
  const seed = 11;
  const random = new SeededRandom(seed);
  const disk = new VirtualDisk();
  const { opened, writer } = await openSample(disk);
  const { storage } = opened;
  const any = (): number => [...writer.jobs.keys()][random.below(writer.jobs.size)]!;
  for (let id = 1; id <= STEPS; id++) {
    const wish = random.below(10);
    if (wish < 4 || writer.jobs.size === 0) writer.put(id, "x".repeat(random.below(600)), "default");
    else if (wish === 4) writer.put(id, "y".repeat(100 + random.below(900)), "pieces", 90);
    else if (wish < 7) writer.bury(any(), id);
    else writer.delete(any());
    if (random.chance(0.1)) writer.settle(id);
  }
  storage.close(STEPS);
  assert.equal(storage.failure, undefined);
  assert.ok(
    storage.tail.recordsMigrated > 100 && storage.table.oldest!.number > 1,
    "there was something to compact",
  );
  assert.ok(storage.index.big.size > 10, "bodies in pieces are left");

  const { verdict, books } = await readLog(virtualOptions(disk), false);
  const message = `seed ${seed}`;
  assert.deepEqual(verdict.problems, []);
  assert.deepEqual(entries(books.index), entries(storage.index), message);
  assert.deepEqual(books.index.big, storage.index.big, message);
  assert.equal(books.index.maxId, storage.index.maxId, message);
  for (const { number, columns } of verdict.kept) {
    assert.equal(books.table.get(number)!.liveBytes, storage.table.get(number)!.liveBytes, message);
    const { count, kinds, ids, offsets } = columns;
    for (let i = 0; i < count; i++) {
      if (kinds[i] !== RecordKind.put) continue;
      const place = [ids[i]!, number, offsets[i]!] as const;
      assert.equal(books.index.fullIsAt(...place), storage.index.fullIsAt(...place), message);
    }
  }
});
