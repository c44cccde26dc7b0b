// Tests without any space, on disk or for descriptors: the log keeps what it has accepted, waits,
// and recovers by itself.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { SyncEvery } from "../../src/binlog/live/log-writer.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { FRAME_BYTES, SPARE_BYTES } from "../../src/binlog/segments/segment-format.ts";
import { putRecordBytes } from "../../src/message/record.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { jobsOfLog } from "./model.ts";
import { JobWriter, virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

/** Returns the jobs that are acknowledged if the power goes now. */
const afterCrash = (disk: VirtualDisk): Promise<Map<number, string>> =>
  jobsOfLog(virtualOptions(disk.clone()));

for (const syncEvery of [0, 50, "never"] satisfies SyncEvery[]) {
  test(`a write over zeros that needs new blocks on a full disk is repeated once there is room (${syncEvery})`, async () => {
    const disk = new VirtualDisk();
    const notices: string[] = [];
    const { storage } = await openBinlog({ ...virtualOptions(disk, notices), syncEvery });
    const writer = new JobWriter(storage);
    writer.put(1, "before");
    writer.settle(100);
    const before = new Map(writer.jobs);
    const durable = syncEvery === "never" ? 0 : 1;
    let full = true;
    disk.fault = (call) => {
      if (full && call === "write") throw Object.assign(new Error("ENOSPC: injected"), { code: "ENOSPC" });
    };
    writer.put(2, "while it is full");
    writer.put(3, "as well");
    storage.flush(1000);
    assert.equal(storage.failure, undefined);
    assert.ok(storage.room.waiting && storage.room.full);
    assert.equal(storage.tail.synced[0]!, durable, "what was written, and nothing that could not be");
    assert.throws(() => writer.put(4, "too early"), /waits for room/);
    writer.jobs.delete(4);
    writer.n--;
    assert.equal(storage.work(1001), false);
    assert.equal(storage.nextDeadline(), 2000, "it is tried again each second");
    storage.flush(2000);
    assert.ok(storage.room.waiting);
    assert.deepEqual(await afterCrash(disk), before);
    full = false;
    storage.flush(2500);
    assert.ok(storage.room.waiting, "not before its time");
    storage.flush(3000);
    assert.equal(storage.room.waiting, false);
    if (syncEvery !== "never")
      assert.equal(storage.tail.synced[0]!, 3, "it has waited long enough for a sync");
    writer.settle(4000);
    assert.equal(storage.room.full, false);
    assert.deepEqual(
      notices.map((notice) => notice.split(" ")[0]),
      ["BINLOG_FULL", "BINLOG_WAITS", "BINLOG_GOES_ON", "BINLOG_ROOM"],
    );
    storage.close(5000);
    assert.equal(storage.failure, undefined);
    assert.deepEqual(await afterCrash(disk), writer.jobs);
    assert.equal(writer.jobs.size, 3);
  });
}

test("a log that closes while it waits tries once more, and reports a failure", async () => {
  for (const stays of [false, true]) {
    const disk = new VirtualDisk();
    const { storage } = await openBinlog(virtualOptions(disk));
    const writer = new JobWriter(storage);
    let full = true;
    disk.fault = (call) => {
      if (full && call === "write") throw Object.assign(new Error("EDQUOT: injected"), { code: "EDQUOT" });
    };
    writer.put(1, "job");
    storage.flush(0);
    assert.ok(storage.room.waiting);
    full = stays;
    storage.close(1);
    assert.equal(storage.failure?.code, stays ? "BINLOG_NO_SPACE" : undefined);
    assert.equal(disk.openHandles, 0);
    disk.fault = () => {};
    assert.equal((await afterCrash(disk)).size, stays ? 0 : 1);
  }
});

test("a log that closes while a record waits for a place writes it, or reports a failure", async () => {
  for (const stays of [false, true]) {
    const disk = new VirtualDisk();
    const { storage } = await openBinlog(virtualOptions(disk));
    const writer = new JobWriter(storage);
    for (let id = 1; id <= 20; id++) writer.put(id, "x".repeat(300));
    writer.settle(0);
    let short = true;
    disk.fault = (call) => {
      if (short && call === "open") throw Object.assign(new Error("EMFILE: injected"), { code: "EMFILE" });
    };
    // Appended without a flush in between: the last one finds no place in any segment.
    for (let updates = 1; !storage.room.waiting; updates++) {
      writer.update(1 + (updates % 20), { releases: updates });
      assert.ok(updates < 10_000, "it never got full");
    }
    short = stays;
    storage.close(1);
    assert.equal(storage.failure?.code, stays ? "BINLOG_NO_SPACE" : undefined);
    short = false;
    if (!stays) assert.deepEqual(await afterCrash(disk), writer.jobs);
  }
});

test("a record that waited for a place counts once, and is acknowledged like those behind it", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog({ ...virtualOptions(disk), shards: 2 });
  const [writer, other] = [new JobWriter(storage, 0), new JobWriter(storage, 1)];
  for (let id = 1; id <= 20; id++) writer.put(id, "x".repeat(300));
  other.put(21, "other");
  writer.settle(0);
  let short = true;
  disk.fault = (call) => {
    if (short && call === "open") throw Object.assign(new Error("EMFILE: injected"), { code: "EMFILE" });
  };
  const own = (): number => storage.tail.recordsWritten - storage.tail.recordsMigrated;
  for (let round = 1; round <= 2; round++) {
    short = true;
    while (!storage.room.waiting) writer.update(1 + (writer.n % 20), { releases: writer.n });
    assert.equal(own(), writer.n + other.n - 1, "the last one has no place yet");
    const nowMs = 10_000 * round;
    storage.flush(nowMs);
    assert.ok(storage.room.waiting && storage.tail.written[0]! < writer.n);
    short = false;
    storage.flush(nowMs + 1000);
    assert.equal(storage.room.waiting, false);
    assert.equal(own(), writer.n + other.n);
    assert.deepEqual([storage.tail.written[0]!, storage.tail.synced[0]!], [writer.n, writer.n]);
    assert.equal(storage.tail.synced[1]!, other.n);
    other.put(30 + round, "behind it");
    writer.settle(nowMs + 2000);
    assert.equal(storage.tail.synced[1]!, other.n);
  }
  storage.close(50_000);
  const found = await jobsOfLog({ ...virtualOptions(disk.clone()), shards: 2 });
  assert.deepEqual(found, new Map([...writer.jobs, ...other.jobs]));
});

test("a log that waits takes back the segments that a backup keeps, and goes on with that room", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(virtualOptions(disk));
  const writer = new JobWriter(storage);
  const work = (nowMs: number): void => {
    for (let more = true; more; ) {
      storage.flush(nowMs);
      more = storage.work(nowMs);
    }
  };
  let id = 0;
  while (storage.tail.segments.current.number < 6) writer.put(++id, "x".repeat(300));
  work(0);
  storage.cut.want(1);
  work(0);
  assert.equal(storage.cut.state, "made");
  for (; id > 0; id--) writer.delete(id);
  work(0);
  const { kept } = storage.cut;
  assert.ok(kept > 2, `${kept} dropped segments are kept`);
  // Even what is written over needs new blocks, as where files are copied on write.
  const fullBytes = disk.usedBytes();
  let tries = 0;
  disk.fault = (call) => {
    if (call !== "write" || disk.usedBytes() < fullBytes) return;
    tries++;
    throw Object.assign(new Error("ENOSPC: no blocks"), { code: "ENOSPC" });
  };
  writer.put(1000, "needs a block");
  storage.flush(10);
  assert.ok(storage.room.waiting);
  storage.flush(1010);
  assert.deepEqual(
    [storage.room.waiting, storage.cut.state, storage.cut.kept, tries],
    [false, "refused", 0, 1],
  );
  storage.close(1011);
  assert.deepEqual(await afterCrash(disk), writer.jobs);
});

test("a lend that ends a segment which can't be left waits for room: nothing follows an END", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(virtualOptions(disk));
  const writer = new JobWriter(storage);
  let id = 0;
  // Into a segment that was made ahead and has room only at its beginning.
  while (storage.tail.segments.current.number < 2) writer.put(++id, "x".repeat(300));
  storage.flush(0);
  disk.capacityBytes = disk.usedBytes();
  const current = storage.table.get(2)!;
  const roomBytes = (): number => current.fileBytes - current.usedBytes - SPARE_BYTES;
  while (roomBytes() > 1000) writer.put(++id, "x".repeat(300));
  const headBytes = FRAME_BYTES + putRecordBytes("default".length, 0);
  writer.put(++id, "x".repeat(roomBytes() - headBytes));
  assert.equal(roomBytes(), 0);
  assert.equal(storage.room.full, false);
  disk.fault = (call) => {
    if (call === "truncate") throw Object.assign(new Error("ENOSPC: injected"), { code: "ENOSPC" });
  };
  storage.lendIds(id);
  assert.ok(storage.room.waiting);
  disk.fault = () => {};
  disk.capacityBytes = Number.POSITIVE_INFINITY;
  storage.flush(500);
  storage.work(500);
  assert.ok(storage.room.waiting, "not before its time");
  writer.settle(1000);
  assert.equal(storage.room.waiting, false);
  writer.put(++id, "behind it");
  writer.settle(1001);
  storage.close(1002);
  assert.deepEqual(await afterCrash(disk), writer.jobs);
});

test("a sync that fails without room is a failure: its pages are gone", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(virtualOptions(disk));
  const writer = new JobWriter(storage);
  writer.put(1, "job");
  disk.fault = (call) => {
    if (call === "sync") throw Object.assign(new Error("ENOSPC: injected"), { code: "ENOSPC" });
  };
  storage.flush(0);
  assert.equal(storage.failure?.code, "BINLOG_IO");
});

test("without a descriptor updates continue while there is room, then wait, and nothing is lost", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(virtualOptions(disk));
  const writer = new JobWriter(storage);
  for (let id = 1; id <= 100; id++) {
    writer.put(id, "x".repeat(300));
    if (id % 5 === 0) writer.settle(id);
  }
  let short = true;
  disk.fault = (call) => {
    if (short && call === "open") throw Object.assign(new Error("EMFILE: injected"), { code: "EMFILE" });
  };
  let updates = 0;
  let now = 1000;
  for (; !storage.room.waiting; now++) {
    writer.update(1 + (updates++ % 100), { releases: updates });
    storage.flush(now);
    storage.work(now);
    assert.equal(storage.failure, undefined);
    assert.ok(updates < 10_000, "it never got full");
  }
  assert.ok(updates > 100, `${updates} updates found room`);
  short = false;
  now += 1000;
  storage.flush(now);
  assert.equal(storage.room.waiting, false);
  writer.settle(now);
  writer.settle(now + 2000);
  assert.equal(storage.room.full, false);
  storage.close(now + 3000);
  assert.deepEqual(await afterCrash(disk), writer.jobs);
});

for (const { why, call, code, isFull } of [
  { why: "compaction waits for a descriptor", call: "open", code: "EMFILE", isFull: false },
  { why: "a segment can't be removed", call: "unlink", code: "EDQUOT", isFull: true },
]) {
  test(`a sync is not late because ${why}`, async () => {
    const disk = new VirtualDisk();
    const { storage } = await openBinlog({ ...virtualOptions(disk), syncEvery: 50 });
    const writer = new JobWriter(storage);
    for (let id = 1; id <= 200; id++) {
      writer.put(id, "x".repeat(300));
      if (id % 5 === 0) storage.flush(id);
    }
    for (let id = 1; id <= 200; id++) if (id % 4 !== 0) writer.delete(id);
    disk.fault = (asked) => {
      if (asked === call) throw Object.assign(new Error(`${code}: injected`), { code });
    };
    storage.flush(1000);
    while (storage.work(1000)) {}
    if (isFull) assert.equal(storage.room.full, true, "the oldest segment was to go");
    writer.update(4, { releases: 1 });
    storage.flush(1001);
    assert.equal(storage.failure, undefined);
    assert.ok(storage.nextDeadline() <= 1051, `the next turn is at ${storage.nextDeadline()}`);
  });
}

test("acknowledged records are synced in time even if later ones find no room", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog({ ...virtualOptions(disk), syncEvery: 50, clockMs: () => 990 });
  const writer = new JobWriter(storage);
  writer.put(1, "acknowledged");
  storage.flush(1000);
  assert.equal(storage.tail.written[0]!, 1);
  let full = true;
  disk.fault = (call) => {
    if (full && call === "write") throw Object.assign(new Error("ENOSPC: injected"), { code: "ENOSPC" });
  };
  writer.put(2, "not written");
  storage.flush(1010);
  assert.ok(storage.room.waiting);
  assert.equal(storage.tail.unsyncedSinceMs, 990);
  const deadline = storage.nextDeadline();
  assert.ok(deadline <= 1050, `the next turn is at ${deadline}`);
  storage.flush(deadline);
  assert.deepEqual([storage.tail.written[0]!, storage.tail.synced[0]!], [1, 1]);
  assert.ok(storage.room.waiting);
  assert.equal(storage.nextDeadline(), 2010, "nothing more is to be done before it tries again");
  full = false;
  storage.flush(2010);
  assert.deepEqual([storage.tail.written[0]!, storage.tail.synced[0]!], [2, 2]);
  storage.close(3000);
  assert.deepEqual(await afterCrash(disk), writer.jobs);
});

for (const syncEvery of [0, 50] satisfies SyncEvery[]) {
  test(`a record that finds room at a second try is synced even if a later one finds none (${syncEvery})`, async () => {
    const disk = new VirtualDisk();
    const { storage } = await openBinlog({ ...virtualOptions(disk), syncEvery });
    const writer = new JobWriter(storage);
    for (let id = 1; id <= 20; id++) writer.put(id, "x".repeat(300));
    storage.flush(0);
    while (storage.work(0)) {}
    // No further segment can be made, and nothing that is there can go.
    disk.fault = (call) => {
      if (call === "open") throw Object.assign(new Error("EMFILE: injected"), { code: "EMFILE" });
    };
    let last = 0;
    // One after the other before the next flush, until one finds no room.
    for (let turn = 1; !storage.room.waiting; turn++) {
      for (let each = 0; each < 10 && !storage.room.waiting; each++) {
        last = writer.n;
        writer.update(1 + (turn % 20), { releases: turn * 10 + each });
      }
      if (storage.room.waiting) break;
      storage.flush(1000 + turn);
      storage.work(1000 + turn);
      assert.ok(turn < 10_000, "it never got full");
    }
    let now = 0;
    for (let turns = 0; turns < 10 && storage.tail.synced[0]! < last; turns++) {
      now = Math.max(now, storage.nextDeadline());
      storage.flush(now);
      storage.work(now);
    }
    assert.ok(storage.room.waiting);
    assert.equal(storage.failure, undefined);
    assert.deepEqual([storage.tail.written[0]!, storage.tail.synced[0]!], [last, last]);
  });
}

/** Run where a process may have 40 descriptors. */
const DESCRIPTORS = `
  import fs from "node:fs";
  import { RealDisk } from "REAL_DISK";
  const disk = new RealDisk(process.argv[1], 4);
  const connections = [];
  try { for (;;) connections.push(fs.openSync("/dev/null", "r")); } catch (error) { if (error.code !== "EMFILE") throw error; }
  const say = [];
  for (let round = 0; round < 3; round++) {
    const handles = [];
    try { for (;;) handles.push(disk.open("file" + handles.length, "create")); } catch (error) { say.push(handles.length + error.code); }
    disk.syncFolder();
    for (const handle of handles) disk.close(handle);
    // The accepting thread tries again and again.
    try { for (;;) connections.push(fs.openSync("/dev/null", "r")); } catch {}
  }
  for (const connection of connections) fs.closeSync(connection);
  console.log(say.join(" "), fs.readdirSync(process.argv[1]).length);
`;

test("the log keeps descriptors in reserve, again after a file is closed", (t: TestContext) => {
  if (!canRun(t, NEEDS.prlimit)) return;
  const path = `${process.env["TMPDIR"] ?? "/tmp"}/runnerbean-descriptors-${process.pid}`;
  const realDisk = fileURLToPath(new URL("../../src/binlog/disk/real-disk.ts", import.meta.url));
  const script = `fs.mkdirSync(process.argv[1]);${DESCRIPTORS}fs.rmSync(process.argv[1], { recursive: true });`;
  const { stdout, stderr } = spawnSync(
    "prlimit",
    [
      "--nofile=40:40",
      process.execPath,
      "--input-type=module",
      "-e",
      script.replace("REAL_DISK", realDisk),
      path,
    ],
    { encoding: "utf8", timeout: 120_000 },
  );
  assert.equal(stdout, "4EMFILE 4EMFILE 4EMFILE 4\n", stderr);
});
