// What a batch of records costs the disk: one write and one sync of its own, and little for making room.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { JobWriter, virtualOptions } from "./sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

const SEGMENT_BYTES = 4 << 20;
/** As 50 clients make them: 8 KB. */
const BATCH_JOBS = 50;
const BATCHES = 700;

test("with -f 0 a batch is one write and one sync; making room and changing segments add less than a tenth", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog({ ...virtualOptions(disk), segmentBytes: SEGMENT_BYTES });
  const writer = new JobWriter(storage);
  const calls = { write: 0, sync: 0 };
  disk.fault = (name) => {
    if (name === "write" || name === "sync") calls[name]++;
  };
  let records = 0;
  let id = 0;
  for (let batch = 1; batch <= BATCHES; batch++) {
    for (let i = 0; i < BATCH_JOBS; i++) {
      writer.put(++id, "a body of sixty-four bytes, as in the bench".padEnd(64));
      if (id > 2 * BATCH_JOBS) writer.delete(id - 2 * BATCH_JOBS);
      records += id > 2 * BATCH_JOBS ? 2 : 1;
    }
    storage.flush(batch);
    assert.equal(storage.syncedUpTo(0), records);
    while (storage.work(batch)) {}
  }
  assert.ok(storage.stats().currentSegment > 2, "segments were changed");
  for (const [call, count] of Object.entries(calls)) {
    assert.ok(count >= BATCHES, `${count} calls of ${call}`);
    assert.ok(count < BATCHES * 1.1, `${count} calls of ${call} for ${BATCHES} batches`);
  }
});
