// Tests of compaction: of logs that are started again and again, and of what a batch's tally ended.

import assert from "node:assert/strict";
import { it } from "node:test";
import { appendBatch } from "../../../../src/binlog/live/whole-job.ts";
import { openBinlog } from "../../../../src/binlog/open-binlog.ts";
import { BatchOutcome, BatchState } from "../../../../src/schema/batch.ts";
import { jobsOfLog } from "../../../binlog/model.ts";
import { openSample, virtualOptions } from "../../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";

/** Of a log whose live records fit into one segment. */
const FILES_MAX = 12;

it("starts leave a few files, however many there were, and every job", async () => {
  const disk = new VirtualDisk();
  const expected = new Map<number, string>();
  for (let id = 1; id <= 5 * FILES_MAX; id++) {
    const { opened, writer } = await openSample(disk);
    writer.put(id, "kept");
    writer.settle(id);
    opened.storage.close(id);
    for (const [each, text] of writer.jobs) expected.set(each, text);
    const files = disk.names().length;
    assert.ok(files <= FILES_MAX, `${files} files after ${id} starts`);
  }
  assert.deepEqual(await jobsOfLog(virtualOptions(disk)), expected);
});

it("a copied tally keeps its counts, and the key that its job has left behind", async () => {
  const disk = new VirtualDisk();
  const { opened, writer } = await openSample(disk);
  const { storage } = opened;
  const times = { keepMs: 1500, openedAtMs: 1_790_000_000_000, completeAtMs: 0 };
  const facts = { number: 1, name: "nightly", state: BatchState.Open, outcome: BatchOutcome.None };
  appendBatch(storage, { facts: { ...facts, ...times, allDone: 0, allFailed: 0 }, tallies: [] });
  writer.put(2, "a member");
  writer.tally(2, 1, 1, 0);
  writer.remember(2, "welcome:2");
  writer.settle();
  for (let id = 3; storage.table.oldest!.number < 4; id++) {
    writer.put(id, "x".repeat(2000));
    writer.delete(id);
    writer.settle();
  }
  assert.deepEqual([storage.index.jobs, storage.index.remembered], [0, 1]);
  disk.kill();
  assert.deepEqual(await jobsOfLog(virtualOptions(disk)), writer.jobs);
  const [batch] = (await openBinlog(virtualOptions(disk))).batches;
  assert.deepEqual(batch?.tallies, [{ number: 1, shard: 0, done: 1, failed: 0 }]);
});

it("nothing of the only body in pieces is live once its key alone is remembered", async () => {
  const liveBytes = async (pieceBytes: number): Promise<number> => {
    const { opened, writer } = await openSample(new VirtualDisk());
    writer.put(1, "x".repeat(100), "default", pieceBytes);
    writer.remember(1, "welcome:1");
    return opened.storage.table.liveBytes;
  };
  assert.equal(await liveBytes(40), await liveBytes(0));
});
