// Tests that no id which a consumer may have seen is given to another job, however the process
// ends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LENT_IDS } from "../../src/binlog/live/log-writer.ts";
import { appendBatch } from "../../src/binlog/live/whole-job.ts";
import { type OpenedBinlog, openBinlog } from "../../src/binlog/open-binlog.ts";
import { FRAME_BYTES } from "../../src/binlog/segments/segment-format.ts";
import { putRecordBytes } from "../../src/message/record.ts";
import { BatchOutcome, BatchState } from "../../src/schema/batch.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { JobWriter, virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

/** Capacity of a batch that is not written yet. */
const BATCH_BYTES = 1024 * 1024;

const open = (disk: VirtualDisk): Promise<OpenedBinlog> => openBinlog(virtualOptions(disk));

/**
 * Puts job `id` where a consumer sees it at once: its id is lent, its record is appended and not
 * yet on the disk.
 */
function show({ storage }: OpenedBinlog, id: number, lends: boolean): void {
  if (lends) {
    storage.lendIds(id);
    storage.flush(1);
    assert.ok(storage.tail.lending.durableUpTo >= id, "the id is lent before a client sees it");
  }
  new JobWriter(storage).put(id, "seen by a consumer");
}

test("without lending, an id that was seen before a power cut is reused (canary)", async () => {
  const disk = new VirtualDisk();
  const opened = await open(disk);
  show(opened, 1, false);
  disk.crash(new SeededRandom(4));
  assert.equal(
    (await open(disk)).nextId,
    1,
    "the job's record was not durable, so the log does not know its id",
  );
});

for (const end of ["power cut", "kill"] as const) {
  test(`an id that was seen before a ${end} is not reused`, async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const disk = new VirtualDisk();
      const opened = await open(disk);
      show(opened, 1, true);
      if (end === "kill") disk.kill();
      else disk.crash(new SeededRandom(seed));
      const again = await open(disk);
      assert.equal(again.nextId, LENT_IDS + 2, "ids continue after all lent ids");
      // No id was taken this time, so the next crash loses no more.
      disk.crash(new SeededRandom(seed));
      assert.equal((await open(disk)).nextId, LENT_IDS + 2);
    }
  });
}

test("an orderly end returns unused lent ids", async () => {
  const disk = new VirtualDisk();
  const opened = await open(disk);
  show(opened, 7, true);
  opened.storage.close(2);
  assert.equal((await open(disk)).nextId, 8);
});

test("an orderly end returns unused lent ids also if nothing follows a full segment", async () => {
  const disk = new VirtualDisk();
  const { storage } = await open(disk);
  const writer = new JobWriter(storage);
  writer.put(7, "x");
  storage.lendIds(7);
  storage.flush(1);
  // The cut for a backup leaves the segment.
  storage.cut.want(1);
  while (storage.work(1)) storage.flush(1);
  assert.deepEqual([storage.cut.state, storage.tail.segments.current.number], ["made", 2]);
  storage.close(2);
  const again = await open(disk);
  assert.equal(again.nextId, 8);
  again.storage.close(3);
  assert.equal((await open(disk)).nextId, 8);
});

test("a full log owes no lend: no put waits for one, and the loop can sleep", async () => {
  const disk = new VirtualDisk();
  const { storage } = await open(disk);
  const writer = new JobWriter(storage);
  disk.capacityBytes = disk.usedBytes();
  let id = 0;
  while (!storage.room.full) {
    writer.put(++id, "x".repeat(300));
    writer.settle(id);
  }
  const idsLent = storage.tail.lending.durableUpTo;
  for (const highest of [id, idsLent + 1]) {
    assert.equal(storage.lendIsDue(highest), false);
    storage.lendIds(highest);
    storage.flush(id);
    assert.equal(storage.tail.lending.durableUpTo, idsLent);
  }
  disk.capacityBytes = Number.POSITIVE_INFINITY;
  writer.settle(10_000);
  assert.deepEqual([storage.room.full, storage.lendIsDue(idsLent + 1)], [false, true]);
});

test("the number of the last batch is not given again after an orderly end", async () => {
  const disk = new VirtualDisk();
  const { storage } = await open(disk);
  const times = { keepMs: 1500, openedAtMs: 1_790_000_000_000, completeAtMs: 0 };
  const facts = { number: 7, name: "nightly", state: BatchState.Open, outcome: BatchOutcome.None };
  appendBatch(storage, { facts: { ...facts, ...times, allDone: 0, allFailed: 0 }, tallies: [] });
  storage.flush(1);
  storage.close(2);
  const again = await open(disk);
  assert.deepEqual(
    again.batches.map((each) => each.facts.number),
    [7],
  );
  assert.equal(again.nextId, 8);
});

test("ids are lent again when half are used, and compaction keeps that", async () => {
  const disk = new VirtualDisk();
  const opened = await open(disk);
  const { storage } = opened;
  storage.lendIds(1);
  storage.flush(1);
  assert.equal(storage.lendIsDue(LENT_IDS / 2), false);
  assert.equal(storage.lendIsDue(LENT_IDS / 2 + 2), true);
  storage.lendIds(LENT_IDS);
  storage.flush(2);
  assert.equal(storage.tail.lending.durableUpTo, 2 * LENT_IDS);
  const writer = new JobWriter(storage);
  // Enough to drop the segments in which ids were lent.
  for (let id = 1; storage.table.oldest!.number < 4; id++) {
    writer.put(id, "x".repeat(2000));
    writer.delete(id);
    writer.settle();
    while (storage.work(3)) {}
  }
  disk.kill();
  assert.equal((await open(disk)).nextId, 2 * LENT_IDS + 1);
});

test("a lend that found no room for its record is repeated, and shows no id before", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog({ ...virtualOptions(disk), segmentBytes: 4 << 20 });
  const writer = new JobWriter(storage);
  // A batch without room for one more record: the lend has to write it first.
  const bodyBytes = BATCH_BYTES / 16 - FRAME_BYTES - putRecordBytes("default".length, 0);
  let id = 0;
  while (id < 16) writer.put(++id, "x".repeat(bodyBytes));
  let writes = 0;
  disk.fault = (call) => {
    if (call !== "write") return;
    writes++;
    throw Object.assign(new Error("ENOSPC: injected"), { code: "ENOSPC" });
  };
  storage.lendIds(id);
  assert.deepEqual([writes, storage.room.full, storage.tail.lending.durableUpTo], [1, true, 0]);
  disk.fault = () => {};
  storage.flush(1);
  const shown = storage.tail.lending.durableUpTo;
  assert.equal((await open(disk.clone())).nextId, id + 1, "no record states a lend");
  assert.equal(shown, 0, "so no client may see an id of one");
  writer.settle(5000);
  assert.ok(storage.lendIsDue(id));
  storage.lendIds(id);
  storage.flush(5001);
  assert.equal(storage.tail.lending.durableUpTo, id + LENT_IDS);
});
