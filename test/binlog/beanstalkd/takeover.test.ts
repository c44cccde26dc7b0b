// Tests of takeovers of beanstalkd's log: every job, whatever ended the write, and refusals.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pack } from "msgpackr/pack";
import { Memory } from "../../../src/base/bytes.ts";
import { readBeanstalkdLog } from "../../../src/binlog/beanstalkd/beanstalkd-log.ts";
import { takeoverNoteOf } from "../../../src/binlog/beanstalkd/takeover.ts";
import { DirectoryLock } from "../../../src/binlog/disk/directory-lock.ts";
import { RealBackgroundSync } from "../../../src/binlog/disk/real-disk.ts";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { encodeBatch } from "../../../src/message/flow-record.ts";
import { RecordState } from "../../../src/message/record.ts";
import { type BatchFacts, BatchOutcome, BatchState } from "../../../src/schema/batch.ts";
import { canRun, NEEDS } from "../../support/machine/need.ts";
import { temporaryFolder } from "../../support/machine/temporary-folder.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { recoveredTexts } from "../model.ts";
import { realOptions } from "../sample/real-options.ts";
import { JobWriter, virtualOptions } from "../sample/sample-log.ts";
import { VirtualDisk } from "../virtual-disk.ts";
import { beanstalkdFile, ourLog, partsOf, takeOver, withBeanstalkd } from "./beanstalkd-logs.ts";

test("a takeover keeps every job of beanstalkd 1.12 with id, state, counts and body", async (t) => {
  if (!canRun(t, NEEDS.beanstalkd)) return;
  const path = temporaryFolder(t);
  const before = Date.now();
  await withBeanstalkd(path, ["-s", "20000"], async (client) => {
    for (let id = 1; id <= 40; id++) await client.put("x".repeat(id * 20), { pri: id, ttr: 100 + id });
    await client.put("later", { delay: 1000 });
    await client.put("x".repeat(65_533));
    await client.put("y".repeat(65_534));
    await client.put("z".repeat(65_535));
    await client.ask("use other-tube");
    await client.put("after the big ones");
    for (const id of [7, 3, 5]) {
      assert.match((await client.ask(`reserve-job ${id}`)).line, /^RESERVED/);
      assert.equal((await client.ask(`bury ${id} ${id * 2}`)).line, "BURIED");
    }
    assert.match((await client.ask("reserve-job 9")).line, /^RESERVED/);
    assert.equal((await client.ask("release 9 77 500")).line, "RELEASED");
    assert.equal((await client.ask("kick-job 9")).line, "KICKED");
    for (const id of [1, 2, 40]) assert.equal((await client.ask(`delete ${id}`)).line, "DELETED");
    assert.match((await client.ask("reserve-job 11")).line, /^RESERVED/);
  });
  const files = readdirSync(path).filter((name) => name.startsWith("binlog."));
  assert.ok(files.length > 1);

  const notices: string[] = [];
  const lock = DirectoryLock.take(path);
  const opened = await openBinlog(realOptions(path, notices));
  const jobs = recoveredTexts(opened, 1);
  assert.equal(opened.nextId, 46);
  assert.equal(jobs.size, 42);
  const job = (id: number) => partsOf(jobs.get(id)!);
  for (let id = 4; id < 40; id++) assert.equal(job(id).body.length, id * 20);
  assert.deepEqual(
    [42, 43, 44].map((id) => job(id).body.length),
    [65_533, 65_534, 65_535],
  );
  assert.equal(job(45).body, "after");
  assert.equal(job(45).tube, "other-tube");
  assert.equal(job(6).ttr, 106);
  assert.ok(job(6).created >= before - 1 && job(6).created <= Date.now());
  assert.equal(job(41).state, RecordState.delayed);
  assert.equal(job(41).delay, 1000);
  assert.ok(Math.abs(job(41).deadline - before - 1_000_000) < 20_000);
  const buried = [...jobs.values()].map(partsOf).filter((one) => one.state === RecordState.buried);
  buried.sort((a, b) => a.burySequence! - b.burySequence!);
  assert.deepEqual(
    buried.map((one) => [one.id, one.pri, one.buries, one.reserves]),
    [
      [7, 14, 1, 1],
      [3, 6, 1, 1],
      [5, 10, 1, 1],
    ],
  );
  assert.deepEqual([job(9).state, job(9).pri, job(9).releases, job(9).kicks], [RecordState.ready, 77, 1, 1]);
  assert.equal(job(11).state, RecordState.ready);
  opened.storage.close(0);
  lock.release();

  const folder = readdirSync(path).find((name) => name.startsWith("beanstalkd-"));
  assert.deepEqual(readdirSync(join(path, folder!)).sort(), files.sort());
  assert.match(notices.join("\n"), new RegExp(`kept in .*${folder}`));
  // Nothing is taken over twice.
  const again = await openBinlog(realOptions(path));
  assert.deepEqual(recoveredTexts(again, 1), jobs);
  again.storage.close(0);
});

test("beanstalkd's lock keeps our server out, and ours keeps beanstalkd out", async (t) => {
  if (!canRun(t, NEEDS.beanstalkd)) return;
  const path = temporaryFolder(t);
  await withBeanstalkd(path, [], async () => {
    assert.throws(() => DirectoryLock.take(path), {
      code: "BINLOG_LOCKED",
      message: /Cannot open binlog: .* is locked by process \d+/,
    });
  });
  const lock = DirectoryLock.take(path);
  assert.throws(() => DirectoryLock.take(path), { code: "BINLOG_LOCKED" });
  await assert.rejects(
    withBeanstalkd(path, [], async () => {}),
    /failed to lock wal dir/,
  );
  lock.release();
  DirectoryLock.take(path).release();
});

test("row 23: beanstalkd's last write before a kill may be torn; the zeros behind it are no damage", () => {
  const whole = beanstalkdFile(["hello", "world"]);
  for (let bytes = 0; bytes <= whole.length; bytes++) {
    for (const zeros of [0, 3, 4, 50, 84, 500]) {
      const disk = new VirtualDisk();
      disk.put("binlog.1", Buffer.concat([whole.subarray(0, bytes), Buffer.alloc(zeros)]));
      const { jobs, warnings } = readBeanstalkdLog(disk, false);
      const expected = bytes >= whole.length ? 2 : bytes >= 4 + 98 ? 1 : 0;
      assert.deepEqual([...jobs.keys()], [1, 2].slice(0, expected), `${bytes} bytes and ${zeros} zeros`);
      if ([4, 102, 200].includes(bytes)) assert.deepEqual(warnings, [], `${bytes} bytes and ${zeros} zeros`);
    }
  }
});

test("a takeover that is interrupted anywhere is repeated or finished, and loses nothing", async () => {
  const bodies = Array.from({ length: 120 }, (_, i) => "body ".repeat(i % 60));
  const files = [bodies.slice(0, 70), bodies.slice(70)].map((part, i) =>
    beanstalkdFile(part, (fields) => (fields.id += 70 * i)),
  );
  for (let stopAt = 1; ; stopAt++) {
    const disk = new VirtualDisk();
    for (const [i, file] of files.entries()) disk.put(`binlog.${i + 1}`, file);
    disk.fault = () => {
      if (disk.calls >= stopAt) throw Object.assign(new Error("interrupted"), { code: "STOP" });
    };
    let done = true;
    try {
      await openBinlog(virtualOptions(disk));
    } catch {
      done = false;
    }
    disk.fault = () => {};
    disk.crash(new SeededRandom(stopAt));
    const opened = await openBinlog(virtualOptions(disk));
    assert.deepEqual(
      [...recoveredTexts(opened, 1).keys()].sort((a, b) => a - b).length,
      120,
      `stopped at ${stopAt}`,
    );
    assert.equal(opened.nextId, 121);
    assert.deepEqual(
      disk.names().filter((name) => name.startsWith("binlog.")),
      [],
    );
    opened.storage.close(0);
    if (done) break;
    assert.ok(stopAt < 2000);
  }
});

test("a takeover refuses damage in the middle of beanstalkd's log; --salvage takes the whole records", async (t) => {
  const path = temporaryFolder(t);
  const bytes = beanstalkdFile(["one", "two", "three"]);
  bytes.writeInt32LE(-5, 4 + 96);
  writeFileSync(join(path, "binlog.1"), bytes);
  writeFileSync(
    join(path, "binlog.2"),
    beanstalkdFile(["x"], (fields) => (fields.id = 9)),
  );
  await assert.rejects(openBinlog(realOptions(path)), {
    code: "BINLOG_CORRUPT",
    message: /binlog\.1 is damaged at offset 100: a tube name of -5 bytes/,
  });
  assert.ok(readdirSync(path).includes("binlog.1"), "nothing was moved");
  const { ids, notices } = await takeOver(path, true);
  assert.deepEqual(ids, [1, 9]);
  assert.match(notices.join("\n"), /damaged at offset 100/);
});

test("a log that was taken over or salvaged syncs in the background", async (t) => {
  for (const damage of [false, true]) {
    const path = temporaryFolder(t);
    if (damage) {
      const { storage } = await openBinlog(realOptions(path));
      new JobWriter(storage).put(1, "one");
      storage.close(0);
      const first = join(path, readdirSync(path).find((name) => name.startsWith("runnerbean"))!);
      const bytes = readFileSync(first);
      bytes[bytes.indexOf("one")]! ^= 1;
      writeFileSync(first, bytes);
    } else writeFileSync(join(path, "binlog.1"), beanstalkdFile(["one"]));
    const background = () => new RealBackgroundSync(path, () => performance.now());
    const options = { ...realOptions(path), background, syncEvery: 50, salvage: damage };
    const { storage } = await openBinlog(options);
    new JobWriter(storage).put(9, "nine");
    storage.flush(1000);
    storage.flush(1049);
    assert.equal(storage.tail.synced[0], 0, "it does not sync at once");
    storage.close(1049);
    assert.equal(storage.failure, undefined);
  }
});

test("a takeover refuses ids that no server gives, and nothing of them stays", async () => {
  for (const id of [-1n, 2n ** 48n, 2n ** 62n]) {
    const disk = new VirtualDisk();
    const bytes = beanstalkdFile(["one", "two", "three"]);
    bytes.writeBigInt64LE(id, bytes.indexOf("one\r\n") + 5 + 4 + "default".length);
    disk.put("binlog.1", bytes);
    await assert.rejects(openBinlog(virtualOptions(disk)), {
      code: "BINLOG_CORRUPT",
      message: /damaged at offset 100: a record with the id/,
    });
    const opened = await openBinlog({ ...virtualOptions(disk), salvage: true });
    assert.deepEqual([...recoveredTexts(opened, 1).keys()], [1], `${id}`);
    opened.storage.close(0);
  }
});

test("row 18: a takeover refuses other versions than 5 and 7 and leaves the log in place", async (t) => {
  const path = temporaryFolder(t);
  const file = Buffer.from(beanstalkdFile(["one"]));
  file.writeInt32LE(8, 0);
  writeFileSync(join(path, "binlog.1"), file);
  await assert.rejects(openBinlog(realOptions(path)), { code: "BINLOG_VERSION" });
  assert.deepEqual(readFileSync(join(path, "binlog.1")), file);
});

test("row 11: only binlog. followed by a plain number is a file of beanstalkd's log", async (t) => {
  const path = temporaryFolder(t);
  const others = ["binlog.", "binlog.007", "binlog.-5", "binlog.0", "binlog.7x"];
  for (const [index, name] of [...others, "binlog.7"].entries()) {
    const file = beanstalkdFile(["x"], (fields) => {
      fields.id = index + 1;
    });
    writeFileSync(join(path, name), file);
  }
  const { ids } = await takeOver(path);
  assert.deepEqual(ids, [others.length + 1]);
  assert.deepEqual(
    readdirSync(path).filter((name) => name.startsWith("binlog.")),
    others.toSorted(),
  );
});

test("row 17: a second full record of a job replaces its body, even by a larger one", async () => {
  const disk = new VirtualDisk();
  const large = "large".repeat(2000);
  const file = beanstalkdFile(["small", large], (fields) => {
    fields.id = 1;
  });
  disk.put("binlog.1", file);
  const opened = await openBinlog(virtualOptions(disk));
  const texts = [...recoveredTexts(opened, 1).values()];
  assert.equal(texts.length, 1);
  assert.equal(partsOf(texts[0]!).body, large);
  opened.storage.close(0);
});

test("a takeover reads version 5: wider name length, shorter struct, microseconds", async (t) => {
  const path = temporaryFolder(t);
  const seven = beanstalkdFile(["five"], (fields) => {
    fields.delaySeconds = 3;
    fields.ttrSeconds = 44;
  });
  const struct = Buffer.from(seven.subarray(4 + 4 + 7, 4 + 4 + 7 + 77));
  for (const at of [16, 24, 40, 48]) struct.writeBigInt64LE(struct.readBigInt64LE(at) / 1000n, at);
  const name = Buffer.alloc(8);
  name.writeInt32LE(7, 0);
  const head = Buffer.from([5, 0, 0, 0]);
  const file = Buffer.concat([
    head,
    name,
    Buffer.from("default"),
    struct,
    Buffer.from("five\r\n"),
    Buffer.alloc(300),
  ]);
  writeFileSync(join(path, "binlog.1"), file);
  const opened = await openBinlog(realOptions(path));
  const job = partsOf(recoveredTexts(opened, 1).get(1)!);
  assert.deepEqual(
    [job.delay, job.ttr, job.created, job.tube, job.body],
    [3, 44, 1_700_000_000_000, "default", "five"],
  );
  opened.storage.close(0);
});

test("a takeover refuses jobs in both logs, because either may be newer", async (t) => {
  const path = temporaryFolder(t);
  await ourLog(path);
  writeFileSync(join(path, "binlog.1"), beanstalkdFile(["one"]));
  await assert.rejects(openBinlog(realOptions(path)), { code: "BINLOG_TWO_LOGS" });
});

test("a takeover refuses remembered keys in our log beside jobs in beanstalkd's, because ids may collide", async (t) => {
  const path = temporaryFolder(t);
  const { storage } = await openBinlog(realOptions(path));
  const writer = new JobWriter(storage);
  writer.put(1, "one");
  writer.remember(1, "key");
  writer.settle();
  storage.close(0);
  writeFileSync(join(path, "binlog.1"), beanstalkdFile(["one"]));
  await assert.rejects(openBinlog(realOptions(path)), {
    code: "BINLOG_TWO_LOGS",
    message: /with 0 jobs and 1 remembered unique keys and files/,
  });
});

test("a takeover refuses a batch in our log beside jobs in beanstalkd's: its number is an id", async (t) => {
  const path = temporaryFolder(t);
  const { storage } = await openBinlog(realOptions(path));
  const memory = Memory.ofSize(1000);
  const batch: BatchFacts = {
    ...{ number: 1, name: "nightly", state: BatchState.Open, outcome: BatchOutcome.None, keepMs: 1 },
    ...{ openedAtMs: 2, completeAtMs: 0, allDone: 0, allFailed: 0 },
  };
  storage.append(0, 1, memory.bytes, 0, encodeBatch(memory, 0, batch, 0));
  storage.flush(0);
  storage.close(0);
  writeFileSync(join(path, "binlog.1"), beanstalkdFile(["one"]));
  await assert.rejects(openBinlog(realOptions(path)), {
    code: "BINLOG_TWO_LOGS",
    message: /with 0 jobs and 1 batches and files/,
  });
});

test("a note of a takeover that can't be read is damage", () => {
  const note = { takeover: "end", folder: "beanstalkd-1", files: "1-2-3" } as const;
  assert.deepEqual(takeoverNoteOf(pack(note), "log"), note);
  for (const bytes of [
    [0xc1],
    [...pack({ ...note, files: 0 }).with(-1, 0xc1)],
    [...pack(note)].slice(0, -1),
    [0xc0],
    [],
  ])
    assert.throws(() => takeoverNoteOf(Uint8Array.from(bytes), "log"), { code: "BINLOG_CORRUPT" });
});

test("the very files that were taken over once come into another folder", async (t) => {
  const path = temporaryFolder(t);
  const folders: string[][] = [];
  for (let time = 0; time < 2; time++) {
    for (const name of readdirSync(path)) if (name.endsWith(".log")) rmSync(join(path, name));
    writeFileSync(join(path, "binlog.1"), beanstalkdFile(["one"]));
    assert.deepEqual((await takeOver(path)).ids, [1]);
    folders.push(readdirSync(path).filter((name) => name.startsWith("beanstalkd-")));
  }
  assert.match(folders[0]!.join(" "), /^beanstalkd-1-\d+-[0-9a-f]{8}$/);
  assert.deepEqual(folders[1], [folders[0]![0], `${folders[0]![0]}-again`]);
  for (const folder of folders[1]!) assert.deepEqual(readdirSync(join(path, folder)), ["binlog.1"]);
});
