// Tests of what the log does in the background when it shares its thread with clients: it makes
// room and lends ids there, counts only what is durable, and waits only for what it needs at once.

import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import type { BackgroundSync, EndedSync } from "../../../../src/binlog/disk/disk.ts";
import {
  countFigure,
  IdLending,
  LENT_IDS,
  type SyncEvery,
  SyncPolicy,
} from "../../../../src/binlog/live/log-writer.ts";
import type { Storage } from "../../../../src/binlog/live/storage.ts";
import { openBinlog } from "../../../../src/binlog/open-binlog.ts";
import {
  BATCH_BOUNDS_RECORDS,
  LOG_FIGURES,
  LogFigures,
  SYNC_BOUNDS_SECONDS,
} from "../../../../src/message/log-figures.ts";
import { JobWriter, openSample, virtualOptions } from "../../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";

const SEGMENT_BYTES = 1 << 20;
const NO_SPACE = Object.assign(new Error("ENOSPC: no space left on device, fdatasync"), { code: "ENOSPC" });
const BROKEN = Object.assign(new Error("EIO: i/o error, fdatasync"), { code: "EIO" });

/** A sync that ends when the test wants it. */
class HeldSync implements BackgroundSync {
  readonly #disk: VirtualDisk;
  #finish: (() => void) | undefined;
  #ended: EndedSync | undefined;

  constructor(disk: VirtualDisk) {
    this.#disk = disk;
  }

  get isUnderWay(): boolean {
    return this.#finish !== undefined;
  }

  begin(name: string): boolean {
    assert.equal(this.#finish ?? this.#ended, undefined, "one sync at a time");
    this.#finish = this.#disk.laterSync(name);
    return true;
  }

  end(error?: Error): void {
    assert.ok(this.#finish !== undefined, "a sync that ends has begun");
    if (error === undefined) this.#finish();
    this.#finish = undefined;
    this.#ended = { tookMs: 5, error };
  }

  take(): EndedSync | undefined {
    const ended = this.#ended;
    this.#ended = undefined;
    return ended;
  }

  forget(): void {}
  close(): void {}
}

interface Opened {
  readonly disk: VirtualDisk;
  readonly storage: Storage;
  readonly writer: JobWriter;
  readonly room: HeldSync;
  readonly records: HeldSync;
  /** Syncs for which the thread waited. */
  readonly syncs: () => number;
}

async function open(syncEvery: SyncEvery): Promise<Opened> {
  const disk = new VirtualDisk();
  const made: HeldSync[] = [];
  const background = (): HeldSync => {
    const sync = new HeldSync(disk);
    made.push(sync);
    return sync;
  };
  const options = { ...virtualOptions(disk), segmentBytes: SEGMENT_BYTES, syncEvery, background };
  const { storage } = await openBinlog(options);
  while (storage.work(0)) {}
  let syncs = 0;
  disk.fault = (call) => {
    if (call === "sync") syncs++;
  };
  const [room, records] = made.slice(-2) as [HeldSync, HeldSync];
  return { disk, storage, writer: new JobWriter(storage), room, records, syncs: () => syncs };
}

/** Puts jobs of 10 kB until the log makes room in the background. Returns the last id. */
function putUntilRoomIsMade({ storage, writer, room }: Pick<Opened, "storage" | "writer" | "room">): number {
  let id = 0;
  while (!room.isUnderWay) {
    assert.ok(id < 1000, "room is made at some time");
    writer.put(++id, "x".repeat(10_000));
    storage.flush(id / 1000);
    while (storage.work(id / 1000)) {}
  }
  return id;
}

const growth = ({ storage }: Opened): number => storage.table.fileBytes();

test("room counts once its sync in the background has ended", async () => {
  const opened = await open(50);
  const { storage, room, records, syncs } = opened;
  const before = syncs();
  putUntilRoomIsMade(opened);
  assert.equal(records.isUnderWay, false);
  const filesBytes = growth(opened);
  assert.equal(storage.work(1), false, "it does not wait for the sync by turning");
  assert.equal(growth(opened), filesBytes);
  const waited = syncs();
  assert.ok(waited - before <= 3, `${waited - before} syncs held the thread up`);
  room.end();
  storage.work(1);
  assert.ok(growth(opened) > filesBytes, "there is more room");
  assert.equal(storage.room.full, false);
});

test("a record that needs the room at once does not wait for the background", async () => {
  const opened = await open(50);
  const { disk, storage, writer } = opened;
  let id = putUntilRoomIsMade(opened);
  const segment = storage.tail.segments.current.number;
  while (storage.tail.segments.current.number < segment + 3) {
    writer.put(++id, "y".repeat(10_000));
    storage.flush(1);
    storage.work(1);
  }
  assert.equal(storage.failure, undefined);
  storage.syncNow(2);
  disk.kill();
  const again = await openBinlog({ ...virtualOptions(disk), segmentBytes: SEGMENT_BYTES });
  assert.equal(again.jobCount, id);
});

test("a full disk shows when the background has no room for an extent, and nothing fails", async () => {
  const opened = await open(50);
  const { disk, storage, room, writer } = opened;
  const id = putUntilRoomIsMade(opened);
  disk.fault = (call) => {
    if (call === "sync") throw NO_SPACE;
  };
  room.end(NO_SPACE);
  storage.work(1);
  assert.equal(storage.room.full, true);
  assert.equal(storage.failure, undefined);
  disk.fault = () => {};
  // Not in the background: it is looked at once a second whether there is room.
  while (storage.room.full) {
    storage.work(2000);
    assert.equal(room.isUnderWay && storage.room.full, false);
  }
  writer.put(id + 1, "later");
  storage.flush(2001);
  assert.equal(storage.failure, undefined);
});

test("a full disk shows while the background makes room, and leaves the reserve", async () => {
  const { disk, storage, room, writer } = await open(50);
  let id = putUntilRoomIsMade({ storage, room, writer });
  disk.capacityBytes = disk.usedBytes();
  for (; !storage.room.full; id++) {
    assert.ok(id < 1000, "the disk is full at some time");
    writer.put(id + 1, "x".repeat(10_000));
    storage.flush(1);
    while (storage.work(1)) {}
  }
  assert.equal(room.isUnderWay, true);
  const roomBytes = storage.tail.segments.roomBytes;
  assert.ok(roomBytes >= 0.75 * SEGMENT_BYTES, `${roomBytes} bytes are left for deletes and copies`);
  for (let each = 1; each <= id; each++) {
    writer.delete(each);
    storage.flush(2);
    while (storage.work(2)) {}
  }
  assert.equal(storage.room.waiting, false);
});

test("a sync of room that ends without space after a change of the segment ends nothing", async () => {
  const { storage, room, writer } = await open(50);
  let heldTurns = 0;
  for (let id = 1; ; id++) {
    assert.ok(id < 5000, "the segment changes while room is made");
    const { isUnderWay } = room;
    const segment = storage.tail.segments.current.number;
    writer.put(id, "x".repeat(3000));
    if (isUnderWay && storage.tail.segments.current.number !== segment) break;
    storage.flush(1);
    while (storage.work(1)) {}
    heldTurns = room.isUnderWay ? heldTurns + 1 : 0;
    if (heldTurns > 100) room.end();
  }
  room.end(NO_SPACE);
  storage.flush(2);
  while (storage.work(2)) {}
  assert.equal(storage.failure, undefined);
});

test("the log does not turn while it waits for the background", async () => {
  const { storage, room, writer } = await open(50);
  for (let id = 1; id < 3000; id++) {
    writer.put(id, "x".repeat(3000));
    writer.delete(id);
    storage.flush(id);
    while (storage.work(id)) {}
    for (let turns = 0; storage.nextDeadline() <= id; turns++) {
      assert.ok(turns < 10, "there is nothing to do until the next record");
      storage.flush(id);
      storage.work(id);
    }
    if (room.isUnderWay && id % 100 === 0) room.end();
  }
  assert.ok(storage.table.oldest!.number > 3, "segments were removed");
});

test("a broken disk that the background meets ends the log", async () => {
  const opened = await open(50);
  const { disk, storage, room } = opened;
  putUntilRoomIsMade(opened);
  disk.fault = (call) => {
    if (call === "sync") throw BROKEN;
  };
  room.end(BROKEN);
  storage.work(1);
  assert.equal(storage.failure?.code, "BINLOG_IO");
});

for (const syncEvery of [50, "never"] as const)
  test(`with -f ${syncEvery}, ids are lent in the background while puts have some`, async () => {
    const { storage, writer, records, syncs } = await open(syncEvery);
    storage.lendIds(1);
    storage.flush(1);
    assert.equal(storage.tail.lending.durableUpTo, LENT_IDS + 1, "the first put waits for its id");
    const before = syncs();
    writer.put(1, "one");
    storage.lendIds(LENT_IDS / 2 + 2);
    storage.flush(2);
    assert.equal(records.isUnderWay, true);
    assert.equal(syncs(), before, "nobody waits");
    assert.equal(storage.tail.lending.durableUpTo, LENT_IDS + 1, "a lend counts once it is durable");
    assert.equal(storage.lendIsDue(LENT_IDS / 2 + 3), false);
    records.end();
    storage.flush(3);
    assert.equal(storage.tail.lending.durableUpTo, LENT_IDS / 2 + 2 + LENT_IDS);
  });

test("a put without an id does not wait for the background", async () => {
  const { storage, records, syncs } = await open(50);
  storage.lendIds(1);
  storage.flush(1);
  storage.lendIds(LENT_IDS / 2 + 2);
  storage.flush(2);
  assert.equal(records.isUnderWay, true);
  const before = syncs();
  assert.equal(storage.lendIsDue(LENT_IDS + 2), true, "a put waits");
  storage.lendIds(LENT_IDS + 2);
  storage.flush(3);
  assert.ok(syncs() > before);
  assert.ok(storage.tail.lending.durableUpTo >= LENT_IDS + 2);
});

test("a lend that the sync under way does not include has the next one", async () => {
  const { storage, writer, records } = await open(50);
  storage.lendIds(1);
  storage.flush(0);
  writer.put(1, "one");
  storage.flush(1);
  storage.flush(45);
  assert.equal(records.isUnderWay, true);
  storage.lendIds(LENT_IDS / 2 + 2);
  storage.flush(46);
  assert.equal(storage.tail.lending.durableUpTo, LENT_IDS + 1);
  records.end();
  storage.flush(47);
  assert.equal(records.isUnderWay, true);
  records.end();
  storage.flush(48);
  assert.equal(storage.tail.lending.durableUpTo, LENT_IDS / 2 + 2 + LENT_IDS);
});

test("turns without records don't ask for another sync while one runs in the background", async () => {
  const { storage, writer, records, syncs } = await open(50);
  storage.syncNow(0);
  writer.put(1, "a");
  let nowMs = 1000;
  for (; !records.isUnderWay; nowMs++) {
    assert.ok(nowMs < 1050, "a sync begins in time");
    storage.flush(nowMs);
  }
  storage.flush(nowMs);
  storage.flush(1049);
  records.end();
  const before = syncs();
  storage.flush(1049);
  assert.equal(storage.tail.synced[0], 1);
  assert.equal(storage.nextDeadline(), 1149, "only a mark is left to write");
  assert.equal(syncs(), before);
});

// Tests of lent ids: they count once the record that states the lend is durable, not before.

const LENT = 100;

it("ids may be seen once the record of their lend is durable, whatever was synced before", () => {
  const lending = new IdLending(LENT);
  assert.ok(lending.isDue(1));
  lending.extend(1);
  lending.lent(5);
  lending.synced(4);
  assert.deepEqual([lending.durableUpTo, lending.sequence], [0, 5]);
  lending.synced(5);
  assert.deepEqual([lending.durableUpTo, lending.sequence], [1 + LENT, 5]);
  assert.ok(!lending.isDue(1 + LENT / 2) && lending.isDue(2 + LENT / 2));
  lending.extend(2 + LENT / 2);
  lending.lent(8);
  lending.synced(7);
  assert.equal(lending.durableUpTo, 1 + LENT, "those of before are still lent");
  lending.synced(9);
  assert.equal(lending.durableUpTo, 2 + LENT / 2 + LENT);
});

// Tests of when the log syncs, and when it states that it is durable.

const NEVER = Number.POSITIVE_INFINITY;

test("a log syncs early enough that no more than -f is lost, whatever a sync takes", () => {
  const policy = new SyncPolicy(100);
  const times = (): number[] => [policy.syncAtMs, policy.markAtMs];
  assert.deepEqual([policy.never, ...times()], [false, NEVER, NEVER]);
  policy.dirty(1000);
  policy.dirty(1050);
  assert.deepEqual(times(), [1100, NEVER], "the oldest record counts");
  policy.synced(1100, 20, false);
  assert.deepEqual(times(), [NEVER, 1200]);
  policy.dirty(2000);
  assert.deepEqual(times(), [2060, NEVER], "twice as long as the last one");
  policy.synced(2060, 90, true);
  assert.deepEqual(times(), [NEVER, NEVER]);
  policy.dirty(3000);
  assert.deepEqual(times(), [3050, NEVER], "half of the time at most");
  const never = new SyncPolicy("never");
  never.dirty(0);
  never.synced(0, 1, false);
  assert.deepEqual([never.never, never.syncAtMs, never.markAtMs], [true, NEVER, NEVER]);
});

test("a sync in the background begins early, and must be over when -f is", () => {
  const policy = new SyncPolicy(100, true);
  policy.dirty(1000);
  assert.equal(policy.syncAtMs, 1080, "a fifth of the time is left for it");
  assert.deepEqual([policy.mayBegin(1099), policy.mayBegin(1100)], [true, false]);
  policy.begun();
  assert.equal(policy.syncAtMs, 1100);
  policy.dirty(1085);
  assert.equal(policy.syncAtMs, 1100, "later records have more time");
  policy.ended(1090, 30);
  assert.deepEqual([policy.syncAtMs, policy.markAtMs], [1135, NEVER], "half of the time at most");
  policy.begun();
  policy.ended(1140, 5);
  assert.deepEqual([policy.syncAtMs, policy.markAtMs], [NEVER, 1240]);
  policy.dirty(2000);
  policy.begun();
  policy.synced(2050, 1, true);
  assert.deepEqual([policy.syncAtMs, policy.markAtMs], [NEVER, NEVER], "another sync made it durable");
});

test("a start ends the segment that a killed server wrote where its last record ends", async () => {
  const disk = new VirtualDisk();
  const { writer } = await openSample(disk);
  writer.put(1, "body");
  writer.settle(0);
  const [first] = disk
    .names()
    .filter((name) => name.endsWith(".log"))
    .sort();
  const before = disk.contentOf(first!).length;
  disk.kill();
  await openSample(disk);
  const bytes = disk.contentOf(first!);
  assert.ok(bytes.length < before, `${bytes.length} of ${before} bytes`);
  assert.ok(
    bytes.subarray(-8).some((byte) => byte !== 0),
    "no zeros follow its END",
  );
});

describe("the figures of the log", () => {
  it("have places of their own, in which each value is counted once", () => {
    const { Sync, Wait, Batch, WrittenBytes } = LogFigures;
    const figures = new Float64Array(LOG_FIGURES);
    const kinds = [
      [Sync, SYNC_BOUNDS_SECONDS],
      [Wait, SYNC_BOUNDS_SECONDS],
      [Batch, BATCH_BOUNDS_RECORDS],
    ] as const;
    for (const [at, bounds] of kinds) {
      const values = [0, ...bounds, bounds.at(-1)! + 1];
      for (const value of values) countFigure(figures, at, bounds, value);
      const sum = figures[at + bounds.length + 1]!;
      assert.ok(Math.abs(sum - values.reduce((all, each) => all + each, 0)) < 1e-9);
      // A value at a bound is counted below it; 0 is below the first one, too.
      const counts = [...figures.subarray(at, at + bounds.length + 1)];
      assert.deepEqual(counts, [2, ...Array<number>(bounds.length).fill(1)]);
    }
    assert.equal(figures[WrittenBytes], 0);
    assert.equal(WrittenBytes, LOG_FIGURES - 1);
  });
});
