// Tests of Storage: what it writes and syncs when, the numbers that replies wait for, and its next
// deadline.

import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { Memory } from "../../../../src/base/bytes.ts";
import type { StorageOptions } from "../../../../src/binlog/live/log-writer.ts";
import { Storage } from "../../../../src/binlog/live/storage.ts";
import { openBinlog } from "../../../../src/binlog/open-binlog.ts";
import { emptyLog } from "../../../../src/binlog/segments/books.ts";
import { encodeBatch } from "../../../../src/message/flow-record.ts";
import { LogBatchKind, logBatchesOf } from "../../../../src/message/log-batch.ts";
import { type BatchFacts, BatchState } from "../../../../src/schema/batch.ts";
import { jobsOfLog } from "../../../binlog/model.ts";
import { JobWriter, SAMPLE_SEGMENT_BYTES, virtualOptions } from "../../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";

const NEVER = Number.POSITIVE_INFINITY;
const MARK_AFTER_MS = 100;

/** A new log of two shards, and the calls that its disk gets from here on. */
function scene(options: Partial<StorageOptions> = {}) {
  const disk = new VirtualDisk();
  const notices: string[] = [];
  const log = emptyLog(1);
  const storage = new Storage({
    disk,
    log,
    shards: 2,
    segmentBytes: SAMPLE_SEGMENT_BYTES,
    syncEvery: 0,
    randomSalt: () => 7,
    wallMs: () => 1000,
    clockMs: () => 0,
    notice: ({ code }) => notices.push(code),
    ...options,
  });
  const calls: string[] = [];
  disk.fault = (call) => void calls.push(call);
  const writers = [new JobWriter(storage, 0), new JobWriter(storage, 1)] as const;
  /** Written and synced numbers of both shards. */
  const numbers = (): number[] =>
    [0, 1].flatMap((shard) => [storage.tail.written[shard]!, storage.tail.synced[shard]!]);
  return { disk, log, storage, calls, notices, writers, numbers };
}

test("Storage with -f 0: a flush is one write and one sync for the records of all shards", () => {
  const { storage, calls, writers, numbers } = scene();
  const [first, second] = writers;
  first.put(1, "a");
  second.put(2, "b");
  first.put(3, "c");
  assert.deepEqual(numbers(), [0, 0, 0, 0], "what was only appended is neither written nor durable");
  assert.equal(storage.nextDeadline(), 0, "and has to be flushed at once");
  assert.deepEqual(calls, []);
  storage.flush(10);
  assert.deepEqual(numbers(), [2, 2, 1, 1]);
  assert.deepEqual(calls, ["write", "sync"]);
  storage.flush(11);
  assert.deepEqual(calls, ["write", "sync"], "nothing new, nothing to do");
});

test("Storage with -f MS: a flush writes, and the sync comes MS after the oldest record that is not durable", () => {
  const { storage, calls, writers, numbers } = scene({ syncEvery: 50 });
  const [first, second] = writers;
  first.put(1, "a");
  storage.flush(10);
  assert.deepEqual(numbers(), [1, 0, 0, 0]);
  assert.equal(storage.nextDeadline(), 60);
  second.put(2, "b");
  storage.flush(40);
  assert.equal(storage.nextDeadline(), 60, "a later record does not put it off");
  storage.flush(59);
  assert.deepEqual(numbers(), [1, 0, 1, 0]);
  assert.deepEqual(calls, ["write", "write"]);
  storage.flush(60);
  assert.deepEqual(numbers(), [1, 1, 1, 1]);
  assert.deepEqual(calls, ["write", "write", "sync"]);
});

test("Storage with -f MS: after a slow sync the next begins earlier, by twice as long but at most half of MS", () => {
  for (const [tookMs, aheadMs] of [
    [5, 10],
    [40, 25],
  ] as const) {
    let clockMs = 0;
    const { storage, disk, writers } = scene({ syncEvery: 50, clockMs: () => clockMs });
    disk.fault = (call) => {
      if (call === "sync") clockMs += tookMs;
    };
    writers[0].put(1, "a");
    storage.syncNow(0);
    writers[0].put(2, "b");
    storage.flush(1000);
    assert.equal(storage.nextDeadline(), 1050 - aheadMs, `a sync took ${tookMs} ms`);
  }
});

test("Storage with -F: a flush writes and never syncs, and nothing is due; syncNow does it all the same", () => {
  const { storage, calls, writers, numbers } = scene({ syncEvery: "never" });
  writers[0].put(1, "a");
  storage.flush(10);
  storage.flush(1e9);
  assert.deepEqual(numbers(), [1, 0, 0, 0]);
  assert.equal(storage.nextDeadline(), NEVER);
  assert.deepEqual(calls, ["write"]);
  storage.syncNow(1e9);
  assert.deepEqual(numbers(), [1, 1, 0, 0]);
});

test("Storage marks the log as durable once after 100 ms of silence, and not before", () => {
  const { storage, disk, writers } = scene();
  writers[0].put(1, "a");
  storage.flush(0);
  const bytesBefore = storage.table.fileBytes();
  assert.equal(storage.nextDeadline(), MARK_AFTER_MS);
  writers[0].put(2, "b");
  storage.flush(MARK_AFTER_MS - 1);
  assert.equal(storage.nextDeadline(), 2 * MARK_AFTER_MS - 1, "another record begins the silence anew");
  const calls: string[] = [];
  disk.fault = (call) => void calls.push(call);
  storage.flush(2 * MARK_AFTER_MS - 2);
  assert.deepEqual(calls, []);
  storage.flush(2 * MARK_AFTER_MS - 1);
  assert.deepEqual(calls, ["write", "sync"]);
  assert.equal(storage.nextDeadline(), NEVER);
  storage.flush(1e9);
  assert.deepEqual(calls, ["write", "sync"], "a log at rest is left alone");
  assert.equal(storage.table.fileBytes(), bytesBefore, "within the room made ahead");
});

test("Storage with -f MS marks the log only after its writes are durable", () => {
  const { storage, writers, numbers } = scene({ syncEvery: 500 });
  writers[0].put(1, "a");
  storage.flush(0);
  storage.flush(MARK_AFTER_MS);
  assert.deepEqual(numbers(), [1, 0, 0, 0]);
  assert.equal(storage.nextDeadline(), 500);
  storage.flush(500);
  assert.equal(storage.nextDeadline(), 500 + MARK_AFTER_MS);
});

test("Storage never takes a record that a start would take for damage: it throws, and acknowledges nothing more", () => {
  const { storage, notices, writers, numbers } = scene();
  writers[0].put(1, "a");
  storage.flush(0);
  const unknown = new Uint8Array(32).fill(0xee);
  assert.throws(() => storage.append(0, 2, unknown, 0, 32), /the log can hold the record/);
  assert.ok(storage.failure !== undefined);
  assert.deepEqual(notices, [], "and blames no disk");
  writers[1].put(2, "b");
  storage.flush(1);
  storage.syncNow(2);
  assert.deepEqual(numbers(), [1, 1, 0, 0]);
  assert.equal(storage.room.full, true);
  assert.equal(storage.nextDeadline(), NEVER);
});

test("Storage that waits for room takes no record, keeps those it has, and tries again once a second", () => {
  const { storage, disk, notices, writers, numbers } = scene();
  const [first, second] = writers;
  let tries = 0;
  disk.fault = (call) => {
    if (call !== "write") return;
    tries++;
    throw Object.assign(new Error("ENOSPC: write"), { code: "ENOSPC" });
  };
  first.put(1, "a");
  storage.flush(10);
  assert.equal(storage.room.waiting, true);
  assert.equal(storage.failure, undefined);
  assert.throws(() => second.put(2, "b"), /the log waits for room/);
  storage.flush(1009);
  assert.equal(storage.work(1009), false);
  assert.equal(tries, 1, "not before the second is over");
  assert.equal(storage.nextDeadline(), 1010);
  storage.flush(1010);
  assert.equal(tries, 2);
  assert.deepEqual(numbers(), [0, 0, 0, 0]);
  disk.fault = () => {};
  storage.flush(2010);
  assert.equal(storage.room.waiting, false);
  assert.deepEqual(numbers(), [1, 1, 0, 0]);
  assert.deepEqual(notices, ["BINLOG_FULL", "BINLOG_WAITS", "BINLOG_GOES_ON"]);
});

test("Storage knows the segment of each job, and reports a new one", () => {
  const told: [id: number, segment: number][] = [];
  const { storage, writers } = scene({ files: { set: (id, segment) => told.push([id, segment]) } });
  const [writer] = writers;
  let id = 0;
  while (storage.tail.segments.current.number === 1) writer.put(++id, "x".repeat(500));
  assert.deepEqual(
    [storage.index.fullSegmentOf(1), storage.index.fullSegmentOf(id), storage.index.fullSegmentOf(id + 1)],
    [1, 2, 0],
  );
  writer.bury(1, 1);
  assert.equal(storage.index.fullSegmentOf(1), 1, "an update leaves the full record where it is");
  writer.delete(1);
  assert.equal(storage.index.fullSegmentOf(1), 0);
  assert.deepEqual(told, [...Array.from({ length: id - 1 }, (_, index) => [index + 1, 1]), [id, 2]]);
});

test("Storage makes everything durable when it closes, under any policy, and closes its files once", () => {
  for (const syncEvery of [0, 1000, "never"] as const) {
    const { storage, disk, writers, numbers } = scene({ syncEvery });
    writers[0].put(1, "a");
    assert.ok(disk.openHandles > 0);
    storage.close(0);
    assert.deepEqual(numbers(), [1, 1, 0, 0], `${syncEvery}`);
    assert.equal(disk.openHandles, 0);
    const { calls } = disk;
    storage.close(1);
    storage.flush(2);
    storage.work(3);
    assert.equal(disk.calls, calls);
    assert.equal(storage.nextDeadline(), NEVER);
  }
});

/**
 * The syncs of a start with segments of 1 MiB, and the room that there is then; the disk may have
 * so many bytes.
 */
function start(spaceBytes: number): { syncs: number; roomBytes: number } {
  const disk = new VirtualDisk();
  disk.capacityBytes = spaceBytes;
  let syncs = 0;
  disk.fault = (call) => {
    if (call === "sync") syncs++;
  };
  const segmentBytes = 2 ** 20;
  const log = emptyLog(1);
  new Storage({
    disk,
    log,
    shards: 1,
    segmentBytes,
    syncEvery: 0,
    randomSalt: () => 7,
    wallMs: () => 0,
    clockMs: () => 0,
    notice: () => {},
  });
  return { syncs, roomBytes: log.table.fileBytes() };
}

test("Storage makes its first room with few syncs, and on a small disk as much as fits", () => {
  const plenty = start(2 ** 24);
  assert.ok(plenty.roomBytes >= 0.75 * 2 ** 20);
  assert.ok(plenty.syncs <= 4, `${plenty.syncs} syncs`);
  const little = start(2 ** 19);
  assert.ok(little.roomBytes > 0.85 * 2 ** 19 && little.roomBytes <= 2 ** 19, `${little.roomBytes} bytes`);
});

test("Storage in a group: work that waits for the shared log keeps no thread awake", () => {
  const sink = { hasRoom: true, acknowledged: 0, acknowledgedMessage: 0, take: () => {} };
  const place = { epoch: 1, n: 0, tag: 1 };
  const chain = { place, node: 1, rewriteBelow: NEVER, randomTag: () => 2, sink };
  const { storage, writers } = scene({ chain });
  const first = storage.tail.segments.current.number;
  for (let id = 1; storage.tail.segments.current.number === first; id++) {
    writers[0].put(id, "x".repeat(1000));
    storage.flush(10);
  }
  storage.flush(10);
  assert.equal(storage.nextDeadline(), 0, "the first segment is to be written again");
  sink.hasRoom = false;
  assert.equal(storage.work(10), false);
  assert.ok(storage.nextDeadline() > 10, `the next turn is at ${storage.nextDeadline()}`);
  sink.hasRoom = true;
  assert.equal(storage.nextDeadline(), 0);
  // A segment that is to go waits for the shared log, too.
  while (storage.work(10) || storage.nextDeadline() === 0) storage.flush(10);
  sink.hasRoom = false;
  assert.ok(storage.nextDeadline() > 10, `the next turn is at ${storage.nextDeadline()}`);
});

test("Storage in a group: a log that is closed yields the lead, also between two segments", () => {
  for (const leaves of [false, true]) {
    const kinds: number[] = [];
    const sink = {
      ...{ hasRoom: true, acknowledged: 0, acknowledgedMessage: 0 },
      take: (bytes: Uint8Array) => void kinds.push(logBatchesOf(bytes)![0]!.header.kind),
    };
    const chain = { place: { epoch: 1, n: 0, tag: 1 }, node: 1, rewriteBelow: 0, randomTag: () => 2, sink };
    const { storage, writers } = scene({ chain });
    writers[0].put(1, "a");
    storage.flush(10);
    if (leaves) {
      storage.cut.want(1);
      while (storage.work(10)) storage.flush(10);
      assert.equal(storage.tail.segments.current.number, 2);
    }
    const { length } = kinds;
    storage.close(20);
    assert.equal(kinds.at(-1), LogBatchKind.yield, `leaves: ${leaves}`);
    assert.equal(kinds.length, length + 1);
    assert.ok(kinds.slice(0, -1).every((kind) => kind === LogBatchKind.data));
  }
});

test("Storage: what says that older segments no longer count is durable at once, whatever the policy", () => {
  for (const syncEvery of [0, 50, "never"] as const) {
    const { storage, calls, writers, numbers } = scene({ syncEvery });
    writers[0].put(1, "a");
    storage.dropBelow(1, 10);
    assert.deepEqual(calls, ["write", "sync"], `-f ${syncEvery}`);
    assert.deepEqual(numbers(), [1, 1, 0, 0]);
  }
});

test("Storage that can't make the removal of a segment durable tries only that again", () => {
  const { storage, disk, notices, writers } = scene();
  const [writer] = writers;
  let id = 0;
  while (storage.tail.segments.current.number === 1) writer.put(++id, "x".repeat(500));
  for (let gone = 1; gone <= id; gone++) writer.delete(gone);
  let unlinked = 0;
  let fails = 2;
  disk.fault = (call) => {
    if (call === "unlink") unlinked++;
    if (call !== "syncFolder" || unlinked === 0 || fails === 0) return;
    fails--;
    throw Object.assign(new Error("EDQUOT: quota"), { code: "EDQUOT" });
  };
  for (let nowMs = 0; nowMs < 20_000 && storage.table.oldest!.number === 1; nowMs += 100) {
    storage.flush(nowMs);
    storage.work(nowMs);
  }
  for (let turn = 0; turn < 100; turn++) {
    storage.flush(20_000);
    storage.work(20_000);
  }
  assert.deepEqual([storage.failure, fails, unlinked], [undefined, 0, 1], notices.join(" "));
  assert.equal(storage.table.oldest!.number, 2);
});

test("Storage takes no other record for the count of a batch, whatever is in it", () => {
  const { storage, writers, log } = scene();
  const memory = Memory.ofSize(1000);
  const facts: BatchFacts = {
    ...{ number: 5, name: "b", state: BatchState.Open, outcome: 0 },
    ...{ keepMs: 0, openedAtMs: 1, completeAtMs: 0, allDone: 0, allFailed: 0 },
  };
  const length = encodeBatch(memory, 0, facts, 0);
  storage.append(1, 1, memory.bytes, 0, length);
  writers[0].put(7, "a");
  // The bytes of this delay and this ttr are 5 as a float.
  writers[0].update(7, { delaySeconds: 0, ttrSeconds: 0x4014_0000 });
  storage.flush(0);
  assert.deepEqual(
    log.index.batches.list().map(({ facts: { number }, tallies }) => [number, tallies]),
    [[5, []]],
  );
  assert.equal(storage.index.fullSegmentOf(7), 1);
});

// Tests of when a log tries again what it had no room or no descriptor for: neither before a second
// is over, nor after it, and at once if it has made room itself.

describe("retries", () => {
  const RETRY_MS = 1000;
  const JOBS = 200;

  /** A log of which the first segments are mostly dead, and whose disk fails some calls. */
  async function scene() {
    const disk = new VirtualDisk();
    const { storage } = await openBinlog(virtualOptions(disk));
    const writer = new JobWriter(storage);
    for (let id = 1; id <= JOBS; id++) {
      writer.put(id, "x".repeat(300));
      if (id % 5 === 0) storage.flush(0);
    }
    for (let id = 1; id <= JOBS; id++) if (id % 4 !== 0) writer.delete(id);
    storage.flush(0);
    const calls = { open: 0, unlink: 0 };
    let failing = { call: "", code: "" };
    disk.fault = (call) => {
      if (call === "open" || call === "unlink") calls[call]++;
      if (call !== failing.call) return;
      throw Object.assign(new Error(`${failing.code}: injected`), { code: failing.code });
    };
    const fail = (call: string, code: string): void => void (failing = { call, code });
    const turn = (nowMs: number): void => {
      storage.flush(nowMs);
      while (storage.work(nowMs)) storage.flush(nowMs);
    };
    return { disk, storage, writer, calls, fail, mend: () => fail("", ""), turn };
  }

  describe("a log without a descriptor", () => {
    it("tries to compact once a second, and goes on in the second after there is one", async () => {
      const { disk, storage, writer, calls, fail, mend, turn } = await scene();
      fail("open", "EMFILE");
      turn(5000);
      assert.deepEqual([storage.room.full, storage.failure], [true, undefined]);
      for (let round = 1; round <= 3; round++) {
        const { open } = calls;
        const dueMs = 5000 + round * RETRY_MS;
        assert.equal(storage.nextDeadline(), dueMs);
        turn(dueMs - 1);
        assert.equal(calls.open, open, "not before");
        assert.equal(storage.nextDeadline(), dueMs);
        turn(dueMs);
        assert.ok(calls.open > open, "and not later");
      }
      mend();
      const oldest = storage.table.oldest!.number;
      turn(9000);
      assert.deepEqual([storage.room.full, storage.table.oldest!.number > oldest], [false, true]);
      storage.close(9000);
      assert.deepEqual(await jobsOfLog(virtualOptions(disk)), writer.jobs);
    });
  });

  describe("a log that can't remove a segment", () => {
    it("makes room at once when a change has removed it", async () => {
      const { disk, storage, writer, fail, mend, turn } = await scene();
      disk.capacityBytes = disk.usedBytes();
      fail("unlink", "EDQUOT");
      turn(5000);
      assert.deepEqual([storage.room.full, storage.failure], [true, undefined]);
      // A mark of what is durable comes in between.
      turn(storage.nextDeadline());
      assert.equal(storage.nextDeadline(), 5000 + RETRY_MS);
      mend();
      const oldest = storage.table.oldest!.number;
      for (let n = 1; storage.table.oldest!.number === oldest; n++) {
        writer.update(4, { releases: n });
        storage.flush(5400);
        assert.ok(n < 10_000, "a change needs the room");
      }
      disk.capacityBytes = Number.POSITIVE_INFINITY;
      storage.flush(5400);
      assert.ok(storage.nextDeadline() <= 5400, `the next turn is at ${storage.nextDeadline()}`);
      turn(5400);
      assert.equal(storage.room.full, false, "puts are accepted again, half a second before the next try");
      storage.close(5400);
      assert.deepEqual(await jobsOfLog(virtualOptions(disk)), writer.jobs);
    });
  });
});
