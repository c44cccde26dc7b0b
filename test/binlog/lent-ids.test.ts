// Tests that no id which a consumer may have seen is given to another job, however the process
// ends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { LENT_IDS } from "../../src/binlog/live/id-lending.ts";
import { type OpenedBinlog, openBinlog } from "../../src/binlog/open-binlog.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { JobWriter, virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

const open = (disk: VirtualDisk): Promise<OpenedBinlog> => openBinlog(virtualOptions(disk));

/**
 * Puts job `id` where a consumer sees it at once: its id is lent, its record is appended and not
 * yet on the disk.
 */
function show({ storage }: OpenedBinlog, id: number, lends: boolean): void {
  if (lends) {
    storage.lendIds(id);
    storage.flush(1);
    assert.ok(storage.idsLent >= id, "the id is lent before a client sees it");
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
  assert.equal(storage.idsLent, 2 * LENT_IDS);
  const writer = new JobWriter(storage);
  // Enough to drop the segments in which ids were lent.
  for (let id = 1; storage.oldestSegment < 4; id++) {
    writer.put(id, "x".repeat(2000));
    writer.delete(id);
    writer.settle();
    while (storage.work(3)) {}
  }
  disk.kill();
  assert.equal((await open(disk)).nextId, 2 * LENT_IDS + 1);
});
