// Tests of the binlog thread's counters: what waits for the disk, what its files hold, whether
// space is released.

import assert from "node:assert/strict";
import { test } from "node:test";
import { BinlogCore } from "../../../src/binlog/binlog-core.ts";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { LogFigures } from "../../../src/message/log-figures.ts";
import { ControlWord, Counter, createTopology } from "../../../src/message/topology.ts";
import { isLent, LentIds } from "../../../src/ring/job-ids.ts";
import { LogWord } from "../../../src/ring/log-words.ts";
import { JobWriter, SAMPLE_SEGMENT_BYTES, virtualOptions } from "../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../binlog/virtual-disk.ts";

/** A log with its counters, on a clock that the test moves. */
async function scene(syncEvery: number | "never", firstId = 1) {
  const disk = new VirtualDisk();
  const clock = { nowMs: 1000 };
  const options = { ...virtualOptions(disk), syncEvery, clockMs: () => clock.nowMs };
  const { storage } = await openBinlog(options);
  const topology = createTopology({
    shards: 1,
    acceptors: 1,
    jobBytesMax: 65_535,
    ringBytes: 4096,
    binlog: { repliesWaitFor: LogWord.Synced, segmentBytes: SAMPLE_SEGMENT_BYTES },
  });
  const core = new BinlogCore(topology);
  core.beginIds(firstId);
  const told = (counter: number): number => core.counters[counter]!;
  /** A turn as BinlogLoop takes it. */
  const turn = (): void => {
    core.takeRecords(storage, () => {});
    storage.flush(clock.nowMs);
    storage.work(clock.nowMs);
    core.publishState(storage);
  };
  return { topology, disk, clock, storage, writer: new JobWriter(storage), told, turn };
}

test("binlog counters: the waiting time of a record is published before a sync that may hang", async () => {
  const { disk, clock, writer, told, turn } = await scene(0);
  turn();
  assert.equal(told(Counter.BinlogUnsyncedSinceMs), 0);
  const seen: number[] = [];
  disk.fault = (call) => {
    if (call === "sync") seen.push(told(Counter.BinlogUnsyncedSinceMs));
  };
  clock.nowMs = 2000;
  writer.put(1, "a");
  turn();
  assert.equal(seen[0], 2000);
  assert.equal(told(Counter.BinlogUnsyncedSinceMs), 0);
});

test("binlog counters: with -f MS the oldest record counts, with -F none", async () => {
  const { clock, writer, told, turn } = await scene(500);
  for (const nowMs of [2000, 2100, 2400]) {
    clock.nowMs = nowMs;
    writer.put(nowMs, "a");
    turn();
    assert.equal(told(Counter.BinlogUnsyncedSinceMs), 2000);
  }
  clock.nowMs = 2500;
  turn();
  assert.equal(told(Counter.BinlogUnsyncedSinceMs), 0);
  clock.nowMs = 2600;
  writer.put(9, "a");
  turn();
  assert.equal(told(Counter.BinlogUnsyncedSinceMs), 2600);
  const never = await scene("never");
  never.writer.put(1, "a");
  never.turn();
  assert.equal(never.told(Counter.BinlogUnsyncedSinceMs), 0);
});

test("binlog counters: written bytes, free room, and whether space is being freed", async () => {
  const { storage, writer, told, turn } = await scene(0);
  turn();
  const before = told(Counter.BinlogSpareBytes);
  const written = (): number => told(Counter.LogFigures + LogFigures.WrittenBytes);
  const atFirst = written();
  writer.put(1, "x".repeat(5000));
  turn();
  assert.ok(written() - atFirst > 5000 && written() - atFirst < 5200, `${written() - atFirst}`);
  assert.ok(before > 5000 && told(Counter.BinlogSpareBytes) <= told(Counter.BinlogBytes));
  assert.equal(told(Counter.BinlogCompacts), 0);
  let compacted = false;
  for (let id = 2; id < 200; id++) {
    writer.put(id, "x".repeat(SAMPLE_SEGMENT_BYTES / 20));
    if (id > 5) writer.delete(id - 3);
    turn();
    compacted ||= told(Counter.BinlogCompacts) === 1;
  }
  assert.ok(compacted && storage.oldestSegment > 1);
  for (let slice = 0; slice < 1000 && storage.work(1e6); slice++) storage.flush(1e6);
  turn();
  assert.equal(told(Counter.BinlogCompacts), 0);
  const { bytes, live, spare } = {
    bytes: told(Counter.BinlogBytes),
    live: told(Counter.BinlogLiveBytes),
    spare: told(Counter.BinlogSpareBytes),
  };
  assert.ok(live + spare <= bytes, `${live} and ${spare} of ${bytes}`);
});

test("ids before the first one are lent from the start", async () => {
  const { topology } = await scene(0, 1000);
  const { low } = new LentIds(new Int32Array(topology.control), ControlWord.IdsLent);
  assert.deepEqual(
    [1, 999, 1000].map((id) => isLent(low, id)),
    [true, true, false],
  );
});
