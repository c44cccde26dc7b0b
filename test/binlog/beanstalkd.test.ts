// Tests of migration from beanstalkd and back, with the real one: ids, states, counts, bodies,
// order.

import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { encodeBeanstalkdRecord } from "../../src/binlog/beanstalkd/beanstalkd-format.ts";
import { readBeanstalkdLog } from "../../src/binlog/beanstalkd/beanstalkd-log.ts";
import { DirectoryLock } from "../../src/binlog/disk/directory-lock.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { exportBeanstalkd } from "../../src/binlog/tools/tools.ts";
import { emptyRecordFields, type RecordFields, RecordState } from "../../src/message/record.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { startServer } from "../support/server/server-process.ts";
import { WireClient } from "../support/server/wire-client.ts";
import { recoveredTexts } from "./model.ts";
import { realOptions } from "./sample/real-options.ts";
import { JobWriter, virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

async function withBeanstalkd(
  path: string,
  flags: readonly string[],
  talk: (client: WireClient) => Promise<void>,
): Promise<string> {
  const server = await startServer({ kind: "beanstalkd-1.12", flags: ["-b", path, "-f0", ...flags] });
  const client = await WireClient.connect(server.address);
  try {
    await talk(client);
  } finally {
    client.socket.destroy();
    await server.kill();
  }
  return server.stderr;
}

async function statsJob(client: WireClient, id: number): Promise<Record<string, string>> {
  const { line, body } = await client.ask(`stats-job ${id}`);
  assert.match(line, /^OK/, `stats-job ${id}`);
  const pairs = body!
    .toString("latin1")
    .split("\n")
    .filter((row) => row.includes(": "));
  return Object.fromEntries(pairs.map((row) => row.split(": ") as [string, string]));
}

/** id, state, pri, delay, ttr and counts from the text of a recovered job. */
function partsOf(text: string) {
  const [id, state, pri, delay, ttr, created, deadline, counts, tube, body = ""] = text.split(" ");
  const [reserves, timeouts, releases, buries, kicks, burySequence] = counts!.split(",").map(Number);
  return {
    id: Number(id),
    state: Number(state),
    pri: Number(pri),
    delay: Number(delay),
    ttr: Number(ttr),
    created: Number(created),
    deadline: Number(deadline),
    reserves,
    timeouts,
    releases,
    buries,
    kicks,
    burySequence,
    tube,
    body,
  };
}

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

/** A log of ours with jobs of every kind, closed; returns their texts. */
async function ourLog(path: string): Promise<Map<number, string>> {
  const opened = await openBinlog(realOptions(path));
  const writer = new JobWriter(opened.storage);
  const now = Date.now();
  for (let id = 1; id <= 20; id++) writer.put(id, "b".repeat(id * 3), id % 2 === 0 ? "even" : "default");
  writer.put(21, "x".repeat(65_533));
  writer.put(22, "y".repeat(65_535));
  writer.put(23, "q".repeat(300_000), "big", 100_000);
  for (const [order, id] of [12, 4, 8].entries()) writer.bury(id, order + 1);
  writer.update(5, {
    state: RecordState.delayed,
    delaySeconds: 1000,
    deadlineAtMs: now + 1_000_000,
    releases: 3,
  });
  writer.update(7, { reserves: 4, timeouts: 2, kicks: 1, pri: 4_000_000_000 });
  writer.delete(1);
  writer.settle();
  opened.storage.close(0);
  return writer.jobs;
}

test("export writes a log that beanstalkd 1.12 reads: ids, states, counts, order, bodies", async (t) => {
  if (!canRun(t, NEEDS.beanstalkd)) return;
  const path = temporaryFolder(t);
  const jobs = await ourLog(path);
  const out = join(temporaryFolder(t), "out");
  const result = await exportBeanstalkd({ path }, out);
  assert.deepEqual(result, {
    jobs: jobs.size,
    files: 1,
    neededMaxJobBytes: 300_002,
    attributesDropped: 0,
    jobsWithAttributes: 0,
    keysDropped: 0,
    settingsDropped: 0,
  });
  const stderr = await withBeanstalkd(out, ["-z", "300002"], async (client) => {
    for (const text of jobs.values()) {
      const job = partsOf(text);
      const stats = await statsJob(client, job.id);
      const state =
        job.state === RecordState.buried ? "buried" : job.state === RecordState.delayed ? "delayed" : "ready";
      assert.deepEqual(
        [stats["state"], stats["tube"], Number(stats["pri"]), Number(stats["ttr"]), Number(stats["delay"])],
        [state, job.tube, job.pri, job.ttr, job.delay],
      );
      assert.deepEqual(
        ["reserves", "timeouts", "releases", "buries", "kicks"].map((key) => Number(stats[key])),
        [job.reserves, job.timeouts, job.releases, job.buries, job.kicks],
      );
      if (job.id === 5) assert.ok(Number(stats["time-left"]) > 980);
      assert.equal((await client.ask(`peek ${job.id}`)).body!.toString("latin1"), job.body);
    }
    await client.ask("use even");
    assert.match((await client.ask("peek-buried")).line, /^FOUND 12 /);
    assert.equal((await client.put("next")).line, "INSERTED 24");
  });
  assert.equal(stderr, "");
});

test("a takeover and an export back to beanstalkd give the same jobs", async (t) => {
  if (!canRun(t, NEEDS.beanstalkd)) return;
  const path = temporaryFolder(t);
  const jobs = await ourLog(path);
  const out = join(temporaryFolder(t), "out");
  await exportBeanstalkd({ path }, out);
  const opened = await openBinlog(realOptions(out));
  const back = recoveredTexts(opened, 1);
  opened.storage.close(0);
  assert.equal(back.size, jobs.size);
  for (const [id, text] of jobs) {
    const [there, here] = [partsOf(back.get(id)!), partsOf(text)];
    // A burial is one more in beanstalkd after it reads the job, so the file says one less.
    if (here.state === RecordState.buried) there.buries! += 1;
    if (here.state !== RecordState.delayed) here.deadline = 0;
    assert.ok(
      Math.abs(there.created - here.created) < 0.01 && Math.abs(there.deadline - here.deadline) < 0.01,
    );
    assert.deepEqual({ ...there, created: 0, deadline: 0 }, { ...here, created: 0, deadline: 0 });
  }
});

test("beanstalkd reads exported bodies of 65,534 and 65,535 bytes with the -z that export names", async (t) => {
  if (!canRun(t, NEEDS.beanstalkd)) return;
  const path = temporaryFolder(t);
  const opened = await openBinlog(realOptions(path));
  const writer = new JobWriter(opened.storage);
  writer.put(1, "a".repeat(65_534));
  writer.put(2, "b".repeat(65_535));
  writer.settle();
  opened.storage.close(0);
  const out = join(temporaryFolder(t), "out");
  const { neededMaxJobBytes } = await exportBeanstalkd({ path }, out);
  assert.equal(neededMaxJobBytes, 65_537);
  await withBeanstalkd(out, ["-z", String(neededMaxJobBytes)], async (client) => {
    assert.equal((await client.ask("peek 1")).body!.length, 65_534);
    assert.equal((await client.ask("peek 2")).body!.length, 65_535);
  });
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

/** A file of beanstalkd with the jobs 1, 2, … of the bodies. */
function beanstalkdFile(
  bodies: readonly string[],
  change: (fields: RecordFields) => void = () => {},
): Buffer {
  const parts: Uint8Array[] = [Uint8Array.of(7, 0, 0, 0)];
  for (const [i, body] of bodies.entries()) {
    const fields = { ...emptyRecordFields(), id: i + 1, ttrSeconds: 1, createdAtMs: 1_700_000_000_000 };
    change(fields);
    const record = new Uint8Array(200 + body.length);
    const length = encodeBeanstalkdRecord(record, fields, Buffer.from("default"), Buffer.from(body));
    parts.push(record.subarray(0, length));
  }
  return Buffer.concat(parts);
}

async function takeOver(path: string, salvage = false): Promise<{ ids: number[]; notices: string[] }> {
  const notices: string[] = [];
  const opened = await openBinlog({ ...realOptions(path, notices), salvage });
  const ids = [...recoveredTexts(opened, 1).keys()];
  opened.storage.close(0);
  return { ids, notices };
}

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
