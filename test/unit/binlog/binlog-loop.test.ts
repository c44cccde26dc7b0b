// Tests of the loop of the log: what it does in a turn, whom it wakes, and how it ends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Memory } from "../../../src/base/bytes.ts";
import { BinlogLoop } from "../../../src/binlog/binlog-loop.ts";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { Point } from "../../../src/loop/role.ts";
import { LogFigures } from "../../../src/message/log-figures.ts";
import {
  APPEND_HEADER_BYTES,
  emptyRecordFields,
  encodePutHead,
  writeAppendHeader,
} from "../../../src/message/record.ts";
import {
  backupWords,
  binlogRole,
  ControlWord,
  Counter,
  countersOf,
  createTopology,
  portBell,
  threadOfShard,
} from "../../../src/message/topology.ts";
import { Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { FULL, RingWriter } from "../../../src/ring/ring.ts";
import { ControlWords, isLent, LentIds, LogWord, LogWords } from "../../../src/ring/shared-words.ts";
import { JobWriter, SAMPLE_SEGMENT_BYTES, virtualOptions } from "../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../binlog/virtual-disk.ts";

const SHARDS = 2;
const fails = (code: string): never => {
  throw Object.assign(new Error(`${code}: write`), { code });
};

interface Wish {
  readonly syncEvery?: number | "never";
  readonly repliesWaitFor?: LogWord;
  readonly givesWay?: boolean;
}

/** A log of two shards and one acceptor, each in a thread of its own that sleeps. */
async function scene({ syncEvery = 0, repliesWaitFor = LogWord.Synced, givesWay = false }: Wish = {}) {
  const disk = new VirtualDisk();
  const clock = { nowMs: 1000, isHeldUp: false };
  const { storage } = await openBinlog({ ...virtualOptions(disk), shards: SHARDS, syncEvery });
  const topology = createTopology({
    shards: SHARDS,
    acceptors: 1,
    jobBytesMax: 65_535,
    ringBytes: 4096,
    placement: "apart",
    binlog: { repliesWaitFor, segmentBytes: SAMPLE_SEGMENT_BYTES },
  });
  const words = new Int32Array(topology.doorbells);
  const threads = [threadOfShard(topology, 0), threadOfShard(topology, 1), portBell(topology, 0)];
  const bells = threads.map((thread) => new Doorbell(words, thread));
  const owners = threads.map((thread) => new DoorbellOwner(words, thread));
  const control = new ControlWords(topology.control);
  const ends: Point[] = [];
  const loop = new BinlogLoop({
    ...{ topology, storage, givesWay },
    shards: bells.slice(0, SHARDS),
    acceptors: bells.slice(SHARDS),
    onEnded: () => ends.push(Point.Ended),
    surroundings: { nowMs: () => clock.nowMs, isHeldUp: () => clock.isHeldUp },
  });
  loop.beginIds(1);
  const rings = topology.binlog!.rings.map((ring) => new RingWriter(ring));
  const memory = Memory.ofSize(10_000);
  const sent = [0, 0];
  /** A shard appends the record of a job; false if its ring has no room. */
  const put = (shard: number, id: number, bodyBytes = 10): boolean => {
    const fields = { ...emptyRecordFields(), id, ttrSeconds: 1 };
    const length = encodePutHead(memory, 0, fields, Buffer.from("t"), bodyBytes) + bodyBytes;
    const ring = rings[shard]!;
    const offset = ring.claim(APPEND_HEADER_BYTES + length);
    if (offset === FULL) return false;
    const at = writeAppendHeader(ring, offset, length, ++sent[shard]!);
    ring.bytes.set(memory.bytes.subarray(0, length), at);
    ring.publish();
    return true;
  };
  const numbers = (word: LogWord): number[] => {
    const seen = new Int32Array(SHARDS);
    new LogWords(topology.binlog!.progress, word).copyTo(seen);
    return [...seen];
  };
  const progress = (): number[][] => [numbers(LogWord.Written), numbers(LogWord.Synced)];
  /** All threads sleep. Then the log does this; returns those that it wakes. */
  const woken = (act: () => void): boolean[] => {
    for (const owner of owners) owner.prepare();
    act();
    return owners.map((owner) => owner.isRung);
  };
  const turn = (point: Point = Point.Turned): void => assert.equal(loop.next(), point);
  // The first turns lend ids and make room.
  do while (loop.next() === Point.HeldUp);
  while (loop.hasMore || loop.hasWork);
  return { disk, clock, storage, topology, control, loop, ends, rings, put, progress, woken, turn };
}

test("a turn takes the records of all shards, and wakes the acceptors once they are durable", async () => {
  const { clock, loop, put, progress, woken, turn } = await scene();
  assert.equal(loop.hasWork, false);
  put(0, 1);
  put(1, 2);
  put(1, 3);
  assert.equal(loop.hasWork, true);
  clock.nowMs = 2000;
  assert.deepEqual(woken(turn), [false, false, true]);
  assert.deepEqual([loop.taken, loop.hasMore, loop.begunAtMs], [3, true, 2000]);
  assert.deepEqual(progress(), [
    [1, 2],
    [1, 2],
  ]);
  assert.deepEqual(woken(turn), [false, false, false], "nothing new");
  assert.deepEqual([loop.taken, loop.hasMore, loop.hasWork], [0, false, false]);
  assert.equal(loop.nextDueAtMs, 2100, "the log is marked as durable");
});

test("with -f MS the acceptors are woken for what replies wait for", async () => {
  for (const [repliesWaitFor, atOnce, later] of [
    [LogWord.Written, true, false],
    [LogWord.Synced, false, true],
  ] as const) {
    const { clock, loop, put, progress, woken, turn } = await scene({ syncEvery: 50, repliesWaitFor });
    put(0, 1);
    assert.deepEqual(woken(turn), [false, false, atOnce]);
    assert.deepEqual(progress(), [
      [1, 0],
      [0, 0],
    ]);
    assert.equal(loop.nextDueAtMs, 1050);
    clock.nowMs = 1050;
    assert.deepEqual(woken(turn), [false, false, later]);
    assert.deepEqual(progress()[1], [1, 0]);
  }
});

test("a loop may be held up after each action of a turn", async () => {
  const { clock, loop, put, progress } = await scene();
  put(0, 1);
  clock.isHeldUp = true;
  const synced: number[] = [];
  while (loop.next() === Point.HeldUp) synced.push(progress()[1]![0]!);
  // It takes, flushes, tells, rings the acceptors, works, and tells again.
  assert.deepEqual(synced, [0, 0, 1, 1, 1, 1]);
});

test("a shard that waits for room in its ring is woken, and no other", async () => {
  const { rings, put, woken, turn, loop } = await scene();
  let id = 0;
  while (put(1, ++id, 500));
  rings[1]!.wantRoom();
  assert.deepEqual(woken(turn), [false, true, true]);
  assert.equal(loop.taken, id - 1);
});

test("a stop waits for all records in the rings, and closes the log", async () => {
  const { disk, control, loop, storage, put, progress, turn } = await scene();
  put(0, 1);
  control.set(ControlWord.BinlogStop);
  assert.equal(loop.hasWork, true);
  turn();
  assert.equal(loop.hasMore, true);
  turn(Point.Ended);
  turn(Point.Ended);
  assert.deepEqual(progress()[1], [1, 0]);
  assert.equal(control.isSet(ControlWord.NoMoreReplies), false);
  assert.equal(loop.close(), undefined);
  assert.equal(control.isSet(ControlWord.NoMoreReplies), true);
  assert.deepEqual([disk.openHandles, storage.nextDeadline()], [0, Number.POSITIVE_INFINITY]);
});

test("a log that fails tells of no record from then on", async () => {
  const { disk, control, loop, put, progress, woken, turn } = await scene();
  disk.fault = (call) => void (call === "sync" && fails("EIO"));
  put(0, 1);
  assert.deepEqual(
    woken(() => turn(Point.Ended)),
    [false, false, false],
  );
  assert.deepEqual(progress()[1], [0, 0]);
  assert.equal(loop.close()?.code, "BINLOG_IO");
  assert.equal(control.isSet(ControlWord.NoMoreReplies), true);
});

test("a log that waits for room takes nothing before its deadline, says so, and wakes the shards after it", async () => {
  const { disk, clock, control, loop, put, progress, woken, turn } = await scene();
  const waits = (): boolean => control.isSet(ControlWord.BinlogWaits);
  disk.fault = (call) => void (call === "write" && fails("ENOSPC"));
  put(0, 1);
  turn();
  turn();
  assert.deepEqual([waits(), control.isSet(ControlWord.BinlogFull)], [true, true]);
  put(1, 2);
  assert.deepEqual([loop.hasWork, loop.nextDueAtMs], [false, 2000]);
  turn();
  assert.equal(loop.taken, 0);
  disk.fault = () => {};
  clock.nowMs = 2000;
  assert.deepEqual(woken(turn), [true, true, true]);
  assert.equal(waits(), false);
  turn();
  assert.deepEqual(progress()[1], [1, 1]);
});

test("a stop ends a wait for room: with it all records are taken, without it the log fails", async () => {
  for (const isThereRoom of [true, false]) {
    const { disk, control, loop, put, progress, turn } = await scene();
    disk.fault = (call) => void (call === "write" && fails("ENOSPC"));
    put(0, 1);
    turn();
    turn();
    put(1, 2);
    control.set(ControlWord.BinlogStop);
    assert.equal(loop.hasWork, true);
    if (isThereRoom) disk.fault = () => {};
    let turns = 0;
    for (; loop.next() !== Point.Ended; turns++) assert.ok(turns < 10);
    const failure = loop.close();
    assert.equal(failure === undefined, isThereRoom);
    assert.deepEqual(progress()[1], isThereRoom ? [1, 1] : [0, 0]);
  }
});

test("a backup that asks gets its cut, and gives it back", async () => {
  const { topology, storage, loop, put, turn } = await scene();
  const words = backupWords(topology);
  put(0, 1);
  turn();
  words.ask(3);
  assert.equal(loop.hasWork, true);
  for (let turns = 0; storage.cut.state !== "made"; turns++) {
    assert.ok(turns < 100);
    turn();
  }
  assert.deepEqual(await words.answer(3, 0), { oldest: 1, last: 1 });
  assert.equal(loop.hasWork, false);
  words.ask(0);
  assert.equal(loop.hasWork, true);
  turn();
  assert.equal(storage.cut.state, "none");
});

test("beside shards, the log ends once and then has nothing to do", async () => {
  const { control, loop: log, ends, put, progress, clock } = await scene({ givesWay: true });
  assert.deepEqual([log.hasWork, log.turn(0)], [false, false]);
  put(0, 1);
  assert.equal(log.hasWork, true);
  assert.deepEqual([log.next(), log.isInTurn], [Point.HeldUp, true]);
  assert.deepEqual(progress()[1], [1, 0], "replies can go before the log's own work");
  assert.equal(log.next(), Point.Turned);
  assert.deepEqual([log.isInTurn, log.taken, log.begunAtMs], [false, 1, 1000]);
  put(0, 2);
  assert.equal(log.turn(0), true);
  assert.deepEqual([progress()[1], log.isInTurn], [[2, 0], false]);
  clock.nowMs = log.nextDueAtMs;
  assert.deepEqual([log.turn(clock.nowMs - 1), log.turn(clock.nowMs)], [false, true]);
  control.set(ControlWord.BinlogStop);
  assert.equal(log.hasWork, true);
  for (let turns = 0; ends.length === 0; turns++) {
    assert.ok(turns < 10);
    log.turn(clock.nowMs);
  }
  assert.deepEqual(
    [log.next(), log.hasWork, log.turn(1e9), log.nextDueAtMs, ends.length],
    [Point.Ended, false, false, Number.POSITIVE_INFINITY, 1],
  );
});

// Tests of the log's counters: what waits for the disk, what its files hold, whether space is
// released.

/** A log with its counters, on a clock that the test moves. */
async function countedScene(syncEvery: number | "never", firstId = 1) {
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
  const loop = new BinlogLoop({
    ...{ topology, storage, acceptors: [] },
    shards: [new Doorbell(new Int32Array(topology.doorbells), 0)],
    surroundings: { nowMs: () => clock.nowMs, isHeldUp: () => false },
  });
  loop.beginIds(firstId);
  const counters = countersOf(topology, binlogRole(topology));
  const told = (counter: number): number => counters[counter]!;
  const turn = (): void => assert.equal(loop.next(), Point.Turned);
  return { topology, disk, clock, storage, writer: new JobWriter(storage), told, turn };
}

test("binlog counters: the waiting time of a record is published before a sync that may hang", async () => {
  const { disk, clock, writer, told, turn } = await countedScene(0);
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
  const { clock, writer, told, turn } = await countedScene(500);
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
  const never = await countedScene("never");
  never.writer.put(1, "a");
  never.turn();
  assert.equal(never.told(Counter.BinlogUnsyncedSinceMs), 0);
});

test("binlog counters: written bytes, free room, and whether space is being freed", async () => {
  const { storage, writer, told, turn } = await countedScene(0);
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
  assert.ok(compacted && storage.table.oldest!.number > 1);
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
  const { topology } = await countedScene(0, 1000);
  const { low } = new LentIds(new Int32Array(topology.control), ControlWord.IdsLent);
  assert.deepEqual(
    [1, 999, 1000].map((id) => isLent(low, id)),
    [true, true, false],
  );
});
