// Tests of the tools for an unused log, on a real directory and through their commands.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, chownSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { crc32 } from "node:zlib";
import { segmentName } from "../../src/base/text.ts";
import { DirectoryLock } from "../../src/binlog/disk/directory-lock.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import type { OpenOptions } from "../../src/binlog/recovery/open-options.ts";
import {
  compact,
  dumpToFile,
  exportBeanstalkd,
  inspect,
  restoreFromFile,
  verify,
} from "../../src/binlog/tools/tools.ts";
import { RecordState } from "../../src/message/record.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { ourMain, TEST_ENV } from "../support/server/server-process.ts";
import { jobsOfLog, recoveredTexts } from "./model.ts";
import { realOptions } from "./sample/real-options.ts";
import { JobWriter, smallLog, virtualOptions } from "./sample/sample-log.ts";

/** Behind Node's name. */
const TOOL = [ourMain(TEST_ENV), "binlog"];

const options = (path: string): OpenOptions => ({ ...realOptions(path), syncEvery: "never" });

const jobsOf = (path: string): Promise<Map<number, string>> => jobsOfLog(options(path));

/** A few segments with jobs of every kind; half of the bytes are dead. */
async function makeLog(path: string): Promise<Map<number, string>> {
  const opened = await openBinlog(options(path));
  const writer = new JobWriter(opened.storage);
  for (let id = 1; id <= 4000; id++) {
    writer.put(id, "d".repeat(700), id % 3 === 0 ? "mail" : "default");
    if (id % 4 === 0) writer.delete(id - 1);
    else if (id % 7 === 0) writer.bury(id, id);
    if (id % 100 === 0) writer.storage.flush(id);
  }
  writer.put(4001, "big".repeat(100_000), "big", 100_000);
  writer.update(1, { state: RecordState.delayed, deadlineAtMs: 9e12 });
  writer.put(4002, "gone");
  writer.delete(4002);
  writer.storage.flush(5000);
  opened.storage.close(5000);
  return writer.jobs;
}

test("inspect prints segments, live and dead bytes, jobs by tube and state", async (t) => {
  const path = temporaryFolder(t);
  const jobs = await makeLog(path);
  const report = await inspect({ path });
  assert.equal(report.jobs, jobs.size);
  assert.equal(report.nextId, 4003);
  assert.deepEqual(
    report.tubes.map((tube) => tube.tube),
    ["big", "default", "mail"],
  );
  assert.equal(
    report.tubes.reduce((sum, tube) => sum + tube.ready + tube.delayed + tube.buried, 0),
    jobs.size,
  );
  assert.equal(report.tubes[1]!.delayed, 1);
  assert.equal(report.tubes[0]!.bodyBytes, 300_000);
  assert.ok(report.segments.length >= 4 && report.liveBytes < report.fileBytes);
  assert.deepEqual(report.problems, []);
});

test("verify reports whether the log is whole, and changes nothing", async (t) => {
  const path = temporaryFolder(t);
  await makeLog(path);
  assert.deepEqual((await verify({ path })).whole, true);
  const before = readdirSync(path).map((name) => [name, statSync(join(path, name)).size]);
  const file = join(path, segmentName(2));
  const bytes = readFileSync(file);
  bytes[300_000]! ^= 1;
  writeFileSync(file, bytes);
  const report = await verify({ path });
  assert.equal(report.whole, false);
  assert.match(report.problems[0]!.message, /0002\.log is damaged at offset/);
  assert.deepEqual(
    readdirSync(path).map((name) => [name, statSync(join(path, name)).size]),
    before,
  );
});

test("dump and restore bring every job over, and the next id", async (t) => {
  const path = temporaryFolder(t);
  const jobs = await makeLog(path);
  const file = join(temporaryFolder(t), "jobs.dump");
  assert.equal(await dumpToFile({ path }, file), jobs.size);
  const other = temporaryFolder(t);
  assert.equal(await restoreFromFile({ path: other }, file), jobs.size);
  assert.deepEqual(await jobsOf(other), jobs);
  assert.equal((await inspect({ path: other })).nextId, 4003);
  await assert.rejects(restoreFromFile({ path: other }, file), { code: "BINLOG_INPUT" });
  // A dump that is damaged or cut anywhere leaves nothing behind.
  const text = readFileSync(file);
  const head = `{"runnerbeanDump":1,"nextId":9e15}\n`;
  const farId = Buffer.from(`${head}{"jobs":0,"crc32":${crc32(head)}}\n`);
  for (const bad of [text.subarray(0, text.length - 40), text.subarray(100), Buffer.from("{}\n"), farId]) {
    const empty = temporaryFolder(t);
    writeFileSync(file, bad);
    await assert.rejects(restoreFromFile({ path: empty }, file), { code: "BINLOG_INPUT" });
    assert.deepEqual(
      readdirSync(empty).filter((name) => name !== "lock"),
      [],
    );
  }
});

test("compact leaves only the live jobs", async (t) => {
  const path = temporaryFolder(t);
  const jobs = await makeLog(path);
  const report = await compact({ path });
  assert.equal(report.jobs, jobs.size);
  assert.ok(report.bytesAfter < report.bytesBefore);
  assert.deepEqual(await jobsOf(path), jobs);
});

test("no count includes remembered keys of jobs that are gone", async (t) => {
  const path = temporaryFolder(t);
  const opened = await openBinlog(realOptions(path));
  const writer = new JobWriter(opened.storage);
  for (let id = 1; id <= 5; id++) writer.put(id, `job ${id}`);
  writer.put(6, "in pieces".repeat(10), "default", 20);
  for (const id of [2, 3, 6]) writer.remember(id, `key ${id}`);
  writer.delete(3);
  writer.settle(1);
  assert.deepEqual([opened.storage.index.jobs, opened.storage.index.remembered], [3, 2]);
  opened.storage.close(2);
  assert.equal((await verify({ path })).jobs, 3);
  const file = join(temporaryFolder(t), "jobs.dump");
  assert.equal(await dumpToFile({ path }, file), 3);
  const other = temporaryFolder(t);
  assert.equal(await restoreFromFile({ path: other }, file), 3);
  assert.equal((await compact({ path })).jobs, 3);
  for (const each of [path, other]) {
    const { jobs, remembered } = await inspect({ path: each });
    assert.deepEqual([jobs, remembered], [3, 2]);
    assert.deepEqual(await jobsOf(each), writer.jobs, "the keys are there all the same");
    const again = await openBinlog(realOptions(each));
    assert.equal(again.jobCount, 3);
    again.storage.close(0);
  }
});

test("every tool refuses a directory in use", async (t) => {
  const path = temporaryFolder(t);
  await makeLog(path);
  const lock = DirectoryLock.take(path);
  await assert.rejects(inspect({ path }), { code: "BINLOG_LOCKED" });
  await assert.rejects(compact({ path }), { code: "BINLOG_LOCKED" });
  lock.release();
});

test("the tools distinguish a missing directory, a file, and a directory without a log", async (t) => {
  const path = temporaryFolder(t);
  await assert.rejects(inspect({ path: join(path, "none") }), { code: "BINLOG_DIR" });
  await assert.rejects(inspect({ path }), { code: "BINLOG_INPUT", message: /no log of runnerbean/ });
  writeFileSync(join(path, "file"), "");
  await assert.rejects(inspect({ path: join(path, "file") }), { code: "BINLOG_DIR" });
});

test("the commands: what they print, and their exit codes", async (t) => {
  const path = temporaryFolder(t);
  await makeLog(path);
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [...TOOL, ...args], {
      encoding: "utf8",
      env: TEST_ENV,
      timeout: 120_000,
      maxBuffer: 2 ** 26,
    });
  assert.match(run("inspect", path).stdout, /3001 jobs, next id 4003|\d+ jobs, next id 4003/);
  assert.equal(JSON.parse(run("inspect", "--json", path).stdout).nextId, 4003);
  assert.equal(run("inspect", path).status, 0);
  const whole = run("verify", path);
  assert.match(whole.stdout, /^Whole: \d+ segments/);
  assert.equal(whole.status, 0);
  const missing = run("verify", join(path, "none"));
  assert.match(missing.stderr, /^BINLOG_DIR: Cannot use .*\n {2}Give -b an existing directory/);
  assert.equal(missing.status, 10);
  const out = join(path, "out");
  assert.match(run("export", "--beanstalkd", path, out).stdout, /^Exported \d+ jobs in 1 files/);
  const file = join(path, segmentName(1));
  const bytes = readFileSync(file);
  bytes[70_000]! ^= 8;
  writeFileSync(file, bytes);
  const damaged = run("verify", path);
  assert.match(damaged.stdout, /BINLOG_CORRUPT: .*damaged at offset/);
  assert.equal(damaged.status, 1);
  for (const flags of [[], ["--json"]]) {
    const looked = run("inspect", path, ...flags);
    assert.match(looked.stdout, /BINLOG_CORRUPT.*damaged at offset/s);
    assert.equal(looked.status, 1);
  }
  assert.equal(run("dump", path).status, 1);
  assert.match(run("dump", "--salvage", path).stderr, /Dumped \d+ jobs/);
});

/** Runs a tool in a process of its own, by a line of the shell in which $TOOL stands for it. */
function shell(line: string) {
  const env = { ...TEST_ENV, TOOL: [process.execPath, ...TOOL].join(" ") };
  return spawnSync("bash", ["-c", line], { encoding: "utf8", env, timeout: 120_000 });
}

test("a tool ends quietly when the reader of its pipe leaves", async (t) => {
  const path = temporaryFolder(t);
  await makeLog(path);
  const dumped = shell(`$TOOL dump ${path} | head -c 10; exit \${PIPESTATUS[0]}`);
  assert.equal(dumped.stdout.length, 10);
  assert.equal(dumped.stderr, "");
  assert.equal(dumped.status, 141);
  const full = shell(`$TOOL dump ${path} > /dev/full`);
  assert.match(full.stderr, /^Cannot print: ENOSPC: [^\n]*\n$/);
  assert.equal(full.status, 2);
});

test("a tool names an existing or missing file in one line", async (t) => {
  const path = temporaryFolder(t);
  await makeLog(path);
  const there = shell(`$TOOL dump ${path} ${join(path, segmentName(1))}`);
  assert.match(there.stderr, /^EEXIST: [^\n]*\n$/);
  assert.equal(there.status, 2);
  const missing = shell(`$TOOL restore ${join(path, "none")} ${temporaryFolder(t)}`);
  assert.match(missing.stderr, /^ENOENT: [^\n]*\n$/);
  assert.equal(missing.status, 2);
  assert.equal(shell(`$TOOL dump ${path} /dev/full`).status, 2);
  // An attempt that fails leaves nothing in the way of the next one.
  const file = join(temporaryFolder(t), "jobs.jsonl");
  const lock = DirectoryLock.take(path);
  const refused = shell(`$TOOL dump ${path} ${file}`);
  assert.match(refused.stderr, /^BINLOG_LOCKED: .*\n {2}Stop that server first.* runnerbean backup\.\n$/);
  lock.release();
  assert.equal(shell(`$TOOL dump ${path} ${file}`).status, 0);
});

const NOBODY = 65_534;

test("files that root's tools make have the log's owner and mode", async (t) => {
  if (process.geteuid?.() !== 0) {
    t.skip("only root can give files away");
    return;
  }
  const path = temporaryFolder(t);
  const jobs = await makeLog(path);
  const give = (folder: string) => {
    chownSync(folder, NOBODY, NOBODY);
    for (const name of readdirSync(folder)) {
      chownSync(join(folder, name), NOBODY, NOBODY);
      chmodSync(join(folder, name), 0o640);
    }
  };
  const check = (folder: string, mode: number) => {
    for (const name of readdirSync(folder)) {
      const stat = statSync(join(folder, name));
      assert.deepEqual([name, stat.uid, stat.gid], [name, NOBODY, NOBODY]);
      if (name !== "lock") assert.equal(stat.mode & 0o777, mode, name);
    }
  };
  give(path);
  await compact({ path });
  check(path, 0o640);
  const file = join(temporaryFolder(t), "jobs.dump");
  await dumpToFile({ path }, file);
  const other = temporaryFolder(t);
  chownSync(other, NOBODY, NOBODY);
  assert.equal(await restoreFromFile({ path: other }, file), jobs.size);
  check(other, 0o600);
  const out = temporaryFolder(t);
  chownSync(out, NOBODY, NOBODY);
  await exportBeanstalkd({ path }, out);
  check(out, 0o600);
});

test("opening a log names a file of another user and the remedy", async () => {
  const { disk } = await smallLog("closed");
  disk.fault = (call) => {
    const code = "EACCES";
    if (call === "open") throw Object.assign(new Error("EACCES: permission denied, open 'file'"), { code });
  };
  await assert.rejects(openBinlog(virtualOptions(disk)), {
    code: "BINLOG_DIR",
    message: "Cannot use /virtual for the binlog: EACCES: permission denied, open 'file'",
    nextStep: /chown -R USER \/virtual$/,
  });
});

test("a pool of threads scans a large log and reports progress", async (t) => {
  const path = temporaryFolder(t);
  const opened = await openBinlog(options(path));
  const writer = new JobWriter(opened.storage);
  for (let id = 1; id <= 800; id++) {
    writer.put(id, "p".repeat(50_000));
    writer.storage.flush(id);
    writer.storage.work(id);
  }
  opened.storage.close(0);
  const progress: number[] = [];
  let total = 0;
  const again = await openBinlog({
    ...options(path),
    progress: (done, all) => {
      progress.push(done);
      total = all;
    },
  });
  assert.equal(recoveredTexts(again, 1).size, 800);
  again.storage.close(0);
  assert.ok(progress.length > 20 && progress.at(-1) === total && total > 40_000_000);
});
