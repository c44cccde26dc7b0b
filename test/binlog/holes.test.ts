// Tests for the known holes of beanstalkd's log (a to j): each is closed, and each has a test by
// that name.

import assert from "node:assert/strict";
import { test } from "node:test";
import { segmentName } from "../../src/base/text.ts";
import { Storage } from "../../src/binlog/live/storage.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { emptyLog } from "../../src/binlog/segments/books.ts";
import { RecordState } from "../../src/message/record.ts";
import { jobsOfLog, recoveredTexts } from "./model.ts";
import { JobWriter, openSample, SAMPLE_SEGMENT_BYTES, virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

function failing(disk: VirtualDisk, call: string, code: string, when: () => boolean = () => true): void {
  disk.fault = (name) => {
    if (name === call && when()) throw Object.assign(new Error(`${code}: ${name}`), { code });
  };
}

/** Another life of the same disk, without a crash in between unless the test made one. */
async function restart(disk: VirtualDisk, notices: string[] = []): Promise<Map<number, string>> {
  disk.fault = () => {};
  disk.kill();
  return jobsOfLog(virtualOptions(disk, notices));
}

test("hole a: after a failed fsync nothing is acknowledged", async () => {
  const disk = new VirtualDisk();
  const notices: string[] = [];
  const { storage } = await openBinlog(virtualOptions(disk, notices));
  const writer = new JobWriter(storage);
  writer.put(1, "kept");
  writer.settle();
  assert.equal(storage.tail.synced[0], 1);
  failing(disk, "sync", "EIO");
  writer.put(2, "lost");
  storage.flush(1);
  assert.equal(storage.failure?.code, "BINLOG_IO");
  assert.match(notices.at(-1)!, /BINLOG_IO Cannot write to the binlog in \/virtual: EIO.*start again/);
  // A second fsync would say that all is well: the pages are gone by then. It must not be asked.
  disk.fault = () => {};
  writer.put(3, "lost");
  storage.flush(2);
  storage.work(3);
  assert.equal(storage.tail.synced[0], 1);
  assert.equal(storage.room.full, true);
  assert.equal(storage.nextDeadline(), Number.POSITIVE_INFINITY);
});

test("hole b (row 12): after a write error nothing is acknowledged, and a restart has everything acknowledged before", async () => {
  const disk = new VirtualDisk();
  const { opened, writer } = await openSample(disk);
  writer.put(1, "kept");
  writer.settle();
  const kept = new Map(writer.jobs);
  failing(disk, "write", "EIO");
  writer.put(2, "refused");
  opened.storage.flush(1);
  assert.notEqual(opened.storage.failure, undefined);
  assert.equal(opened.storage.tail.synced[0], 1);
  assert.deepEqual(await restart(disk), kept);
});

test("hole c (row 13): a segment is durable before it is left", async () => {
  const disk = new VirtualDisk();
  const storage = (await openBinlog({ ...virtualOptions(disk), syncEvery: 50 })).storage;
  const writer = new JobWriter(storage);
  let id = 0;
  while (storage.tail.segments.current.number === 1) writer.put(++id, "x".repeat(500));
  // The one that did not fit any more is in the next segment; all before it are durable without a
  // flush.
  assert.equal(storage.tail.synced[0], id - 1);
});

test("hole d: a segment is removed only after the copies of its jobs are durable", async () => {
  const disk = new VirtualDisk();
  const { opened, writer } = await openSample(disk);
  writer.put(1, "old and buried", "old");
  writer.bury(1, 1);
  let unlinked = 0;
  let lastSync = 0;
  let lastWrite = 0;
  disk.fault = (call) => {
    if (call === "write") lastWrite = disk.calls;
    if (call === "sync") lastSync = disk.calls;
    if (call !== "unlink") return;
    unlinked++;
    assert.ok(lastSync > lastWrite, "everything written is synced before an unlink");
  };
  for (let id = 2; id < 400; id++) {
    writer.put(id, "x".repeat(300));
    writer.delete(id);
    writer.storage.flush(id);
    writer.storage.work(id);
  }
  assert.ok(unlinked > 3 && opened.storage.tail.recordsMigrated > 0);
  assert.deepEqual(await restart(disk), writer.jobs);
});

test("hole e: the directory is synced before a new segment is used", async () => {
  const disk = new VirtualDisk();
  const { opened, writer } = await openSample(disk);
  for (let id = 1; id < 200; id++) {
    writer.put(id, "x".repeat(400));
    writer.storage.flush(id);
  }
  assert.ok(opened.storage.tail.segments.current.number > 2);
  // Power fails, and nothing that was not synced survives: names neither.
  const nothing = { below: () => 0, chance: () => false, bits: () => 0 };
  disk.crash(nothing as unknown as Parameters<VirtualDisk["crash"]>[0]);
  assert.deepEqual(await restart(disk), writer.jobs);
});

test("hole f: a start notices a flipped bit and doesn't drop the records behind it", async () => {
  const disk = new VirtualDisk();
  const { opened, writer } = await openSample(disk);
  for (let id = 1; id <= 9; id++) {
    writer.put(id, `body of job ${id}`);
    writer.settle();
  }
  opened.storage.close(0);
  const content = disk.contentOf(segmentName(1));
  const at = Buffer.from(content).indexOf("body of job 4");
  content[at]! ^= 1;
  await assert.rejects(openBinlog(virtualOptions(disk)), { code: "BINLOG_CORRUPT" });
  const salvaged = await openBinlog({ ...virtualOptions(disk), salvage: true });
  assert.deepEqual([...recoveredTexts(salvaged, 1).keys()], [1, 2, 3, 5, 6, 7, 8, 9]);
  salvaged.storage.close(0);
});

test("hole f: compaction of a log in use stops at a flipped bit and doesn't copy it", async () => {
  const disk = new VirtualDisk();
  const { opened, writer } = await openSample(disk);
  const { storage } = opened;
  let id = 0;
  while (storage.tail.segments.current.number < 4) {
    writer.put(++id, `body of job ${id}.`.padEnd(1000));
    writer.settle();
  }
  const content = disk.contentOf(segmentName(1));
  const at = Buffer.from(content).indexOf("body of job 4.");
  assert.ok(at > 0, "the job is in the first file, which is sealed");
  content[at]! ^= 1;
  for (let each = 1; each <= id && storage.failure === undefined; each++) {
    if (each === 4) continue;
    writer.delete(each);
    writer.settle();
  }
  const { failure } = storage;
  assert.equal(failure?.code, "BINLOG_CORRUPT");
  assert.match(
    failure.message,
    new RegExp(`A durable record is damaged: .*${segmentName(1)} at offset \\d+`),
  );
  const damaged = Buffer.from(content.subarray(at, at + "body of job 4.".length));
  const copies = disk.names().filter((name) => Buffer.from(disk.contentOf(name)).includes(damaged));
  assert.deepEqual(copies, [segmentName(1)], "files with the damaged body");
  storage.close(0);
  await assert.rejects(openBinlog(virtualOptions(disk)), { code: "BINLOG_CORRUPT" });
});

/** Runs a load and checks after each step that the disk holds no more than was promised. */
async function bounded(
  load: (writer: JobWriter, step: number) => void,
  steps: number,
): Promise<{ writer: JobWriter; disk: VirtualDisk }> {
  const disk = new VirtualDisk();
  const { opened, writer } = await openSample(disk);
  for (let step = 0; step < steps; step++) {
    load(writer, step);
    opened.storage.flush(step);
    opened.storage.work(step);
    const diskBytes = opened.storage.table.fileBytes();
    const { liveBytes } = opened.storage.table;
    const promised = 2 * liveBytes + 2 * SAMPLE_SEGMENT_BYTES;
    assert.ok(diskBytes < promised, `${diskBytes} bytes on disk, ${promised} promised, in step ${step}`);
    assert.ok(disk.usedBytes() <= diskBytes, "the books agree with the disk");
  }
  return { writer, disk };
}

test("hole g (row 14): endless releases of one job with a delay don't make the log grow", async () => {
  const { writer, disk } = await bounded((w, step) => {
    if (step === 0) w.put(1, "again and again");
    else w.update(1, { state: RecordState.delayed, deadlineAtMs: step, releases: step });
  }, 5000);
  assert.deepEqual(await restart(disk), writer.jobs);
});

test("hole g (row 14): an old buried job, kicks and burials, and puts and deletes don't make the log grow", async () => {
  const old = await bounded((w, step) => {
    if (step === 0) {
      w.put(1, "old");
      w.bury(1, 1);
    }
    w.put(step + 2, "y".repeat(200));
    w.delete(step + 2);
  }, 3000);
  assert.deepEqual(await restart(old.disk), old.writer.jobs);
  const loop = await bounded((w, step) => {
    if (step < 50) w.put(step + 1, "z".repeat(300));
    else if (step % 2 === 0) w.bury((step % 50) + 1, step);
    else w.update((step % 50) + 1, { state: RecordState.ready, kicks: step, burySequence: 0 });
  }, 5000);
  assert.deepEqual(await restart(loop.disk), loop.writer.jobs);
});

test("hole h: the priority given by a release without delay survives", async () => {
  const disk = new VirtualDisk();
  const { writer } = await openSample(disk);
  writer.put(1, "job");
  writer.update(1, { pri: 4242, releases: 1, reserves: 1 });
  writer.settle();
  const [text] = [...(await restart(disk)).values()];
  assert.equal(text, writer.jobs.get(1));
  assert.match(text ?? "", /^1 1 4242 /);
});

test("hole i: the log distinguishes a full disk from missing descriptors and recovers from both", async () => {
  for (const [code, text] of [
    ["ENOSPC", /BINLOG_FULL The disk is full \(ENOSPC\)/],
    ["EMFILE", /BINLOG_FULL There are no file descriptors left \(EMFILE\)/],
  ] as const) {
    const disk = new VirtualDisk();
    const notices: string[] = [];
    const { storage } = await openBinlog(virtualOptions(disk, notices));
    const writer = new JobWriter(storage);
    let extending = true;
    failing(disk, code === "ENOSPC" ? "write" : "open", code, () => extending && growing(storage));
    const growing = (s: Storage) => s.table.fileBytes() > 0 && new Error().stack!.includes("segment-writer");
    let id = 0;
    while (!storage.room.full) {
      writer.put(++id, "x".repeat(300));
      writer.storage.flush(id);
      writer.storage.work(id);
      assert.equal(storage.failure, undefined);
      assert.ok(id < 1000, "it never got full");
    }
    assert.match(notices.at(-1)!, text);
    assert.equal(storage.tail.segments.shortage, code);
    // Changes that need only an update go on: every job can be deleted.
    for (const one of [...writer.jobs.keys()]) {
      if (code === "ENOSPC") writer.update(one, { releases: 1 });
      writer.delete(one);
      storage.flush(id);
      storage.work(id);
    }
    assert.equal(storage.failure, undefined);
    assert.equal(storage.index.jobs, 0);
    extending = false;
    for (let now = 1e6; now < 2e6 && storage.room.full; now += 1000) while (storage.work(now)) {}
    assert.equal(storage.room.full, false);
    assert.match(notices.at(-1)!, /BINLOG_ROOM There is room again/);
    writer.put(++id, "welcome");
    writer.settle(2e6);
    assert.deepEqual(await restart(disk), writer.jobs);
  }
});

test("hole j (row 15): a restart keeps counts and order of burials", async () => {
  const disk = new VirtualDisk();
  const { writer } = await openSample(disk);
  for (const id of [1, 2, 3]) writer.put(id, `job ${id}`);
  writer.bury(2, 1);
  writer.bury(3, 2);
  writer.bury(1, 3);
  writer.settle();
  for (let life = 0; life < 3; life++) assert.deepEqual(await restart(disk), writer.jobs);
  const order = [...writer.jobs].map(
    ([id, text]) => [id, Number(text.split(" ")[7]!.split(",")[5])] as const,
  );
  assert.deepEqual(
    order.sort((a, b) => a[1] - b[1]).map(([id]) => id),
    [2, 3, 1],
  );
});

test("on a full disk of any size puts are refused in time, and deletes and updates work", async () => {
  for (let pages = 20; pages <= 80; pages += 5) {
    const disk = new VirtualDisk();
    disk.capacityBytes = pages * 4096;
    const { opened, writer } = await openSample(disk);
    const { storage } = opened;
    for (let step = 0; step < 4000; step++) {
      const ids = [...writer.jobs.keys()];
      if (!storage.room.full) writer.put(step + 1, "x".repeat(step % 500));
      else if (step % 3 === 0 && ids.length > 0) writer.delete(ids.at(-1)!);
      else if (ids.length > 0) writer.update(ids[step % ids.length]!, { releases: step });
      storage.flush(step);
      storage.work(step);
      assert.equal(storage.failure?.message, undefined, `${pages} pages, step ${step}, ${ids.length} jobs`);
    }
    disk.capacityBytes = Number.POSITIVE_INFINITY;
    assert.deepEqual(await restart(disk), writer.jobs);
  }
});

test("-f MS (row 13): records older than MS are durable even if no more come", () => {
  const disk = new VirtualDisk();
  const storage = new Storage({ ...virtualOptions(disk), log: emptyLog(), syncEvery: 50 });
  const writer = new JobWriter(storage);
  writer.put(1, "alone");
  storage.flush(1000);
  assert.equal(storage.tail.synced[0], 0);
  const deadline = storage.nextDeadline();
  assert.ok(deadline <= 1050, `deadline ${deadline}`);
  storage.flush(deadline);
  assert.equal(storage.tail.synced[0], 1);
});
