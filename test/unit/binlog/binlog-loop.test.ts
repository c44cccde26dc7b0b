// Tests of the loop of the log: what it does in a turn, whom it wakes, and how it ends.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Memory } from "../../../src/base/bytes.ts";
import { BinlogCore } from "../../../src/binlog/binlog-core.ts";
import { BinlogLoop, ColocatedLog } from "../../../src/binlog/binlog-loop.ts";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { Point } from "../../../src/loop/role.ts";
import {
  APPEND_HEADER_BYTES,
  emptyRecordFields,
  encodePutHead,
  writeAppendHeader,
} from "../../../src/message/record.ts";
import {
  backupWords,
  ControlWord,
  createTopology,
  portBell,
  threadOfShard,
} from "../../../src/message/topology.ts";
import { TurnCounters } from "../../../src/message/turn-counters.ts";
import { ControlWords } from "../../../src/ring/control-words.ts";
import { Doorbell, DoorbellOwner } from "../../../src/ring/doorbell.ts";
import { LogWord, LogWords } from "../../../src/ring/log-words.ts";
import { FULL, RingWriter } from "../../../src/ring/ring.ts";
import { SAMPLE_SEGMENT_BYTES, virtualOptions } from "../../binlog/sample/sample-log.ts";
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
  const core = new BinlogCore(topology);
  core.beginIds(1);
  const words = new Int32Array(topology.doorbells);
  const threads = [threadOfShard(topology, 0), threadOfShard(topology, 1), portBell(topology, 0)];
  const bells = threads.map((thread) => new Doorbell(words, thread));
  const owners = threads.map((thread) => new DoorbellOwner(words, thread));
  const control = new ControlWords(topology.control);
  const loop = new BinlogLoop({
    ...{ core, storage, control, givesWay },
    shards: bells.slice(0, SHARDS),
    acceptors: bells.slice(SHARDS),
    counters: new TurnCounters(core.counters, core.rings),
    surroundings: { nowMs: () => clock.nowMs, isHeldUp: () => clock.isHeldUp },
  });
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
  return { disk, clock, storage, topology, core, control, loop, rings, put, progress, woken, turn };
}

test("a turn takes the records of all shards, and wakes the acceptors once they are durable", async () => {
  const { clock, loop, put, progress, woken, turn, core } = await scene();
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
  assert.equal(core.hasRecords, false);
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
  const { topology, core, storage, loop, put, turn } = await scene();
  const words = backupWords(topology);
  put(0, 1);
  turn();
  words.ask(3);
  assert.deepEqual([core.backupIsDue(storage), loop.hasWork], [true, true]);
  for (let turns = 0; storage.cut.state !== "made"; turns++) {
    assert.ok(turns < 100);
    turn();
  }
  assert.deepEqual(await words.answer(3, 0), { oldest: 1, last: 1 });
  assert.equal(loop.hasWork, false);
  words.ask(0);
  assert.equal(loop.hasWork, true);
  turn();
  assert.deepEqual([core.backupIsDue(storage), storage.cut.state], [false, "none"]);
});

test("beside shards, the log ends once and then has nothing to do", async () => {
  const { control, loop, put, progress, clock } = await scene({ givesWay: true });
  let ended = 0;
  const log = new ColocatedLog(loop, () => ended++);
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
  for (let turns = 0; ended === 0; turns++) {
    assert.ok(turns < 10);
    log.turn(clock.nowMs);
  }
  assert.deepEqual(
    [log.next(), log.hasWork, log.turn(1e9), log.nextDueAtMs, ended],
    [Point.Ended, false, false, Number.POSITIVE_INFINITY, 1],
  );
});
