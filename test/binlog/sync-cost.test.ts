// What a batch of records costs the disk: one write and one sync of its own, and little for making room.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { JobWriter, virtualOptions } from "./sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

const SEGMENT_BYTES = 1 << 20;
const BATCHES = 8000;

test("with -f 0 a batch is one write and one sync; making room and changing segments add less than a tenth", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog({ ...virtualOptions(disk), segmentBytes: SEGMENT_BYTES });
  const writer = new JobWriter(storage);
  const calls = { write: 0, sync: 0 };
  disk.fault = (name) => {
    if (name === "write" || name === "sync") calls[name]++;
  };
  for (let id = 1; id <= BATCHES; id++) {
    writer.put(id, "a body of sixty-four bytes, as in the bench".padEnd(64));
    storage.flush(id);
    assert.equal(storage.syncedUpTo(0), 2 * id - 1);
    while (storage.work(id)) {}
    writer.delete(id);
    storage.flush(id);
    while (storage.work(id)) {}
  }
  assert.ok(storage.stats().currentSegment > 2, "segments were changed");
  for (const [call, count] of Object.entries(calls)) {
    assert.ok(count >= 2 * BATCHES, `${count} calls of ${call}`);
    assert.ok(count < 2 * BATCHES * 1.1, `${count} calls of ${call} for ${2 * BATCHES} batches`);
  }
});
