// Tests of preallocation: its cost on disk, that it keeps up with the records, and that a full disk
// is noticed in time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { createTopology } from "../../src/message/topology.ts";
import { LogWord } from "../../src/ring/shared-words.ts";
import { JobWriter, virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

const SEGMENT_BYTES = 4 << 20;
/** As 50 clients make them: 8 KB. */
const BATCH_JOBS = 50;
const BATCHES = 700;

test("with -f 0 a batch is one write and one sync; room and segment changes add less than a tenth", async () => {
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
    assert.equal(storage.tail.synced[0], records);
    while (storage.work(batch)) {}
  }
  assert.ok(storage.tail.segments.current.number > 2, "segments were changed");
  for (const [call, count] of Object.entries(calls)) {
    assert.ok(count >= BATCHES, `${count} calls of ${call}`);
    assert.ok(count < BATCHES * 1.1, `${count} calls of ${call} for ${BATCHES} batches`);
  }
});

const MIB = 1 << 20;

/**
 * Puts of `bodyBytes`, `jobs` of them between two turns of work, as the log's thread takes them
 * from its rings under load.
 */
const LOADS = [
  { bodyBytes: 100, jobs: 50 },
  { bodyBytes: 3000, jobs: 1 },
  { bodyBytes: 3000, jobs: 60 },
  { bodyBytes: 60_000, jobs: 3 },
  { bodyBytes: 3000, jobs: 200 },
] as const;

test("room keeps up with a megabyte a turn, and no append makes more than a few extents", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog({
    ...virtualOptions(disk),
    smallSegments: false,
    segmentBytes: 8 * MIB,
  });
  const writer = new JobWriter(storage);
  let syncs = 0;
  disk.fault = (name) => {
    if (name === "sync") syncs++;
  };
  let most = 0;
  const body = "x".repeat(10_000);
  for (let turn = 0, id = 0; turn < 40; turn++) {
    for (let i = 0; i < 100; i++) {
      syncs = 0;
      writer.put(++id, body);
      most = Math.max(most, syncs);
    }
    storage.flush(turn);
    storage.work(turn);
  }
  assert.equal(storage.failure, undefined);
  assert.ok(storage.tail.segments.current.number > 5, "segments were changed");
  // A change of segments: an extent of the next one, the sync of what is left, the header of the
  // one after it.
  assert.ok(most >= 2 && most <= 4, `${most} syncs in one append`);
});

test("on any disk and under any load puts are refused before the log fails", async () => {
  for (const { bodyBytes, jobs } of LOADS) {
    const body = "x".repeat(bodyBytes);
    for (let capacity = 2.2 * MIB; capacity < 4.6 * MIB; capacity += 244 * 1024) {
      const disk = new VirtualDisk();
      disk.capacityBytes = Math.floor(capacity);
      const options = { ...virtualOptions(disk), smallSegments: false, segmentBytes: MIB };
      const { storage } = await openBinlog(options);
      const writer = new JobWriter(storage);
      const what = `${jobs} bodies of ${bodyBytes} bytes a turn on ${(capacity / MIB).toFixed(2)} MiB`;
      let id = 0;
      for (let turn = 0; !storage.room.full; turn++) {
        for (let i = 0; i < jobs; i++) writer.put(++id, body);
        storage.flush(turn / 100);
        storage.work(turn / 100);
        assert.equal(storage.failure, undefined, what);
        assert.ok(turn < 10_000, `${what}: it never got full`);
      }
      // Another program takes the rest; small records still fit.
      disk.capacityBytes = disk.usedBytes();
      for (const one of [...writer.jobs.keys()].slice(0, 500)) writer.update(one, { releases: 1 });
      storage.flush(1e6);
      assert.equal(storage.failure, undefined, what);
    }
  }
});

test("the records in all rings find room after the log has reported that it is full", async () => {
  for (const shards of [1, 2, 8, 9, 33, 64]) {
    const disk = new VirtualDisk();
    const notices: string[] = [];
    const options = { ...virtualOptions(disk, notices), smallSegments: false, segmentBytes: MIB, shards };
    const { storage } = await openBinlog(options);
    const { binlog } = createTopology({
      shards,
      acceptors: 1,
      jobBytesMax: 65_535,
      ringBytes: 4096,
      binlog: { repliesWaitFor: LogWord.Written, segmentBytes: MIB },
    });
    const ringBytes = binlog!.rings.reduce((sum, ring) => sum + ring.byteLength, 0);
    disk.capacityBytes = disk.usedBytes();
    const body = "x".repeat(7000);
    const writer = new JobWriter(storage);
    let id = 0;
    for (; !storage.room.full; storage.work(id / 100)) {
      writer.put(++id, body);
      storage.flush(id / 100);
    }
    for (let bytes = 0; bytes < ringBytes; bytes += body.length) writer.put(++id, body);
    storage.flush(1e6);
    assert.equal(storage.room.waiting, false, `${shards} shards`);
    assert.equal(storage.failure, undefined);
    assert.equal(
      notices.some((notice) => /BINLOG_SEGMENT_BYTES \d+ shards need/.test(notice)),
      shards > 8,
    );
    storage.close(2e6);
  }
});
