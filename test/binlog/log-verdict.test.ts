// Tests of damaged logs: every truncation and every flipped bit of a small log is recovered or
// refused, and never yields a wrong or missing job.

import assert from "node:assert/strict";
import { test } from "node:test";
import { segmentName } from "../../src/base/text.ts";
import { BinlogError } from "../../src/binlog/disk/binlog-error.ts";
import { LENT_IDS } from "../../src/binlog/live/log-writer.ts";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { settingsOf } from "../../src/binlog/recovery/log-recovery.ts";
import { readLog } from "../../src/binlog/recovery/read-log.ts";
import { recoveredJobs } from "../../src/binlog/recovery/recovered-jobs.ts";
import { FORMAT_VERSION, HEADER_BYTES } from "../../src/binlog/segments/segment-format.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { atNight, skipVariant } from "../support/whole.ts";
import { recoveredTexts } from "./model.ts";
import { largerLog, openSample, smallLog, virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

/** Returns what a start would find: the jobs, "refused", or "cut" with the jobs. */
async function look(
  disk: VirtualDisk,
): Promise<{ refused?: BinlogError; cut: boolean; jobs: Map<number, string> }> {
  let error: BinlogError | undefined;
  try {
    const { verdict, books } = await readLog(virtualOptions(disk), false);
    error = verdict.problems[0]?.error;
    if (error === undefined) {
      const source = { disk, scans: verdict.kept, index: books.index };
      const jobsOf = () => recoveredJobs(source, 1, () => 0);
      const opened = { jobCount: books.index.jobs, jobs: jobsOf, settings: settingsOf(books) };
      const jobs = recoveredTexts(opened as unknown as Parameters<typeof recoveredTexts>[0], 1);
      return { cut: verdict.cutBytes > 0, jobs };
    }
  } catch (thrown) {
    if (!(thrown instanceof BinlogError)) throw thrown;
    error = thrown;
  }
  return { refused: error, cut: false, jobs: new Map() };
}

function sameJobs(a: Map<number, string>, b: Map<number, string>): boolean {
  return a.size === b.size && [...a].every(([id, text]) => b.get(id) === text);
}

for (const how of ["closed", "idle", "busy"] as const) {
  test(`any single bit flip in a log that was ${how} never gives a wrong or missing job`, async () => {
    const { disk, jobs } = await smallLog(how);
    let refused = 0;
    let started = 0;
    let cutJobs = 0;
    for (const name of disk.names()) {
      const content = disk.contentOf(name);
      const used = Math.min(content.length, content.findLastIndex((byte) => byte !== 0) + 40);
      for (let at = 0; at < used; at++) {
        for (let bit = 0; bit < 8; bit++) {
          if (skipVariant(at + bit, 2) !== false) continue;
          content[at]! ^= 1 << bit;
          const found = await look(disk);
          content[at]! ^= 1 << bit;
          if (found.refused !== undefined) refused++;
          else if (sameJobs(found.jobs, jobs)) started++;
          else {
            // Killed within a tenth of a second of its last batch: nothing says yet that this batch
            // was durable, so it is taken for torn, cut and reported. The jobs before it must be
            // there.
            const where = `bit ${bit} at ${at} of ${name}`;
            assert.ok(how === "busy" && found.cut, `${where}: wrong or missing job`);
            const last = new Map(jobs);
            last.delete(5);
            assert.ok(sameJobs(found.jobs, last), `${where}: more than the last batch is gone`);
            cutJobs++;
          }
        }
      }
    }
    assert.ok(refused > 500 && started > 50);
    if (how !== "busy") assert.equal(cutJobs, 0);
  });

  test(`any prefix of a log that was ${how} never gives a wrong or missing job`, async () => {
    const { disk, jobs } = await smallLog(how);
    for (const name of disk.names()) {
      const content = disk.contentOf(name).slice();
      const used = content.findLastIndex((byte) => byte !== 0) + 200;
      const cut = disk.clone();
      // Behind the records one cut is like the other: every 61st will do.
      for (let bytes = 0; bytes < content.length; bytes += bytes < used ? 1 : 61) {
        cut.put(name, content.subarray(0, bytes));
        const found = await look(cut);
        const fine = found.refused !== undefined || sameJobs(found.jobs, jobs);
        assert.ok(fine, `${name} cut to ${bytes} bytes: wrong or missing job`);
      }
    }
  });
}

test("any garbled byte of a larger log never gives a wrong or missing job", async () => {
  const { disk, jobs } = await largerLog();
  const random = new SeededRandom(7);
  const names = disk.names();
  assert.ok(names.length > 3);
  for (let i = 0; i < atNight(1500, 800); i++) {
    const content = disk.contentOf(random.pick(names)!);
    const at = random.below(content.length);
    const length = Math.min(content.length - at, 1 + random.below(600));
    const before = content.slice(at, at + length);
    for (let k = 0; k < length; k++) content[at + k] = random.below(256);
    const found = await look(disk);
    content.set(before, at);
    if (found.refused !== undefined || sameJobs(found.jobs, jobs)) continue;
    // Garbage over the last batch and over the mark that calls it durable is what a torn write
    // looks like.
    const others = [...jobs].filter(([id]) => id <= 190).every(([id, text]) => found.jobs.get(id) === text);
    assert.ok(found.cut && others, `${length} bytes at ${at}, round ${i}`);
  }
});

test("a start notices any missing file", async () => {
  const { disk } = await largerLog();
  // The last one is made ahead and empty: without it nothing is missing but the promise that it is
  // there.
  for (const name of disk.names()) {
    const other = disk.clone();
    other.unlink(name);
    const found = await look(other);
    assert.equal(found.refused?.code, "BINLOG_MISSING_FILE", name);
    assert.match(found.refused?.message ?? "", new RegExp(name));
  }
});

test("a refusal names the file, the offset and the command to repair", async () => {
  const { disk } = await largerLog();
  const name = segmentName(2);
  disk.contentOf(name)[5000]! ^= 4;
  await assert.rejects(openBinlog(virtualOptions(disk)), (error: BinlogError) => {
    assert.equal(error.code, "BINLOG_CORRUPT");
    assert.match(error.message, /runnerbean\.0000000000000002\.log is damaged at offset \d+/);
    assert.match(error.nextStep, /--salvage/);
    return true;
  });
});

test("row 18: a start refuses an unknown version and changes nothing", async () => {
  const { disk } = await smallLog("closed");
  const { crc32 } = await import("node:zlib");
  const content = disk.contentOf(segmentName(1));
  const view = new DataView(content.buffer, content.byteOffset);
  view.setUint32(8, FORMAT_VERSION + 1, true);
  view.setUint32(60, crc32(content.subarray(0, 60)), true);
  const before = disk.names().map((name) => [name, Buffer.from(disk.contentOf(name)).toString("hex")]);
  for (const salvage of [false, true]) {
    await assert.rejects(openBinlog({ ...virtualOptions(disk), salvage }), { code: "BINLOG_VERSION" });
  }
  assert.deepEqual(
    disk.names().map((name) => [name, Buffer.from(disk.contentOf(name)).toString("hex")]),
    before,
  );
});

test("--salvage keeps all whole records, sets the bad file aside and counts skipped records", async () => {
  const random = new SeededRandom(3);
  for (let i = 0; i < 60; i++) {
    const { disk, jobs } = await largerLog();
    const name = random.pick(disk.names().slice(0, -1))!;
    const content = disk.contentOf(name);
    const used = content.findLastIndex((byte) => byte !== 0);
    const at = random.below(used);
    const original = content[at]!;
    content[at]! ^= 1 << random.below(8);
    const whole = (await look(disk)).refused === undefined;
    const notices: string[] = [];
    const opened = await openBinlog({ ...virtualOptions(disk, notices), salvage: true });
    const found = recoveredTexts(opened, 1);
    opened.storage.close(0);
    if (whole) {
      assert.ok(sameJobs(found, jobs));
      continue;
    }
    let gone = 0;
    for (const [id, text] of jobs) {
      if (!found.has(id)) gone++;
      // A job whose update was hit comes back in its state before that; tube and body are never
      // wrong.
      else if (found.get(id) !== text) assert.equal(found.get(id)!.split(" ").at(-1), text.split(" ").at(-1));
    }
    assert.ok(gone <= 1, `${gone} jobs gone after one flipped bit`);
    assert.ok(found.size <= jobs.size + 1, "more than one deleted job came back");
    assert.match(notices.join("\n"), /BINLOG_SALVAGED Salvaged \d+ jobs; [01] records could not be read/);
    const aside = disk.contentOf(`set-aside/${name}`);
    assert.notEqual(aside[at], original, "the damaged file is kept as it was");
    const again = await openBinlog(virtualOptions(disk));
    assert.ok(sameJobs(recoveredTexts(again, 1), found));
    again.storage.close(0);
  }
});

test("--salvage continues past a missing file and past a file without header", async () => {
  for (const harm of ["missing", "header"] as const) {
    const { disk, jobs } = await largerLog();
    const name = segmentName(2);
    if (harm === "missing") disk.unlink(name);
    else disk.contentOf(name)[20]! ^= 1;
    const opened = await openBinlog({ ...virtualOptions(disk), salvage: true });
    const found = recoveredTexts(opened, 1);
    opened.storage.close(0);
    if (harm === "header") assert.ok(sameJobs(found, jobs), "the records behind a damaged header are whole");
    else assert.ok(found.size > 100 && found.size < jobs.size);
    for (const [id, text] of found) {
      const expected = jobs.get(id);
      if (expected !== undefined) assert.equal(text.split(" ").at(-1), expected.split(" ").at(-1));
    }
    const again = await openBinlog(virtualOptions(disk));
    assert.ok(sameJobs(recoveredTexts(again, 1), found));
    again.storage.close(0);
  }
});

test("ids continue after a salvage behind a lend that the damage may hide", async () => {
  const whole = await openBinlog(virtualOptions((await largerLog()).disk));
  whole.storage.close(0);
  const { disk } = await largerLog();
  disk.contentOf(segmentName(2))[20]! ^= 1;
  const { nextId, storage } = await openBinlog({ ...virtualOptions(disk), salvage: true });
  storage.close(0);
  assert.equal(nextId, whole.nextId + LENT_IDS);
});

test("a start reports damage before missing files: it doesn't believe a DROP behind the damage", async () => {
  const disk = new VirtualDisk();
  const { opened, writer } = await openSample(disk);
  for (let id = 1; id <= 200; id++) {
    writer.put(id, "x".repeat(500));
    if (id % 5 === 0) opened.storage.flush(id);
  }
  for (let id = 1; id <= 150; id++) writer.delete(id);
  writer.settle(300);
  opened.storage.close(1000);
  const names = disk.names().filter((name) => name.endsWith(".log"));
  assert.ok(Number(/\d+/.exec(names[0]!)![0]) > 2, "the first segments are gone");
  let both = 0;
  for (const name of names) {
    const content = disk.contentOf(name);
    content[HEADER_BYTES + 30]! ^= 1;
    const { verdict } = await readLog(virtualOptions(disk), false);
    content[HEADER_BYTES + 30]! ^= 1;
    const codes = verdict.problems.map(({ error }) => error.code);
    if (!codes.includes("BINLOG_MISSING_FILE")) continue;
    both++;
    assert.equal(codes[0], "BINLOG_CORRUPT", `${name}: ${codes}`);
    for (const { error } of verdict.problems)
      assert.doesNotMatch(error.nextStep, /empty the directory/, "the jobs are there");
  }
  assert.ok(both > 0);
});
