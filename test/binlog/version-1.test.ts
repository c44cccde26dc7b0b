// Tests with a log of format version 1: it opens, is compacted and salvaged, and continues in the
// present version; an older server then refuses it and changes nothing.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { crc32, gunzipSync } from "node:zlib";
import { openBinlog } from "../../src/binlog/open-binlog.ts";
import { readLog } from "../../src/binlog/recovery/read-log.ts";
import { rewriteLog } from "../../src/binlog/recovery/salvage.ts";
import { decodeHeader, FORMAT_VERSION, HEADER_BYTES } from "../../src/binlog/segments/segment-format.ts";
import { SeededRandom } from "../support/seeded-random.ts";
import { recoveredTexts } from "./model.ts";
import { JobWriter, virtualOptions } from "./sample/sample-log.ts";
import { VirtualDisk } from "./virtual-disk.ts";

interface OldLog {
  /** Gzip in Base64, by name. */
  files: Record<string, string>;
  /** As `jobText`, without attributes. */
  jobs: Record<string, string>;
}

// Written by runnerbean 2.0.0 on the disk of these tests: jobs in all states, updates, deletes, a
// job in pieces.
const LOGS = JSON.parse(readFileSync(new URL("sample/version-1.json", import.meta.url), "utf8")) as Record<
  string,
  OldLog
>;

function diskOf(log: OldLog): VirtualDisk {
  const disk = new VirtualDisk();
  for (const [name, content] of Object.entries(log.files))
    disk.put(name, gunzipSync(Buffer.from(content, "base64")));
  return disk;
}

function jobsOf(log: OldLog): Map<number, string> {
  return new Map(Object.entries(log.jobs).map(([id, text]) => [Number(id), `${text} `]));
}

function versions(disk: VirtualDisk): number[] {
  const segments = disk.names().filter((name) => name.endsWith(".log"));
  return segments.sort().map((name) => {
    const header = decodeHeader(disk.contentOf(name).slice(0, HEADER_BYTES));
    return "problem" in header ? 0 : header.version;
  });
}

describe("a log of version 1", () => {
  for (const [name, log] of Object.entries(LOGS)) {
    it(`${name}: opens with all jobs, and writes nothing into a segment of version 1`, async () => {
      const disk = diskOf(log);
      assert.ok(versions(disk).every((version) => version === 1));
      const opened = await openBinlog(virtualOptions(disk));
      assert.deepEqual(recoveredTexts(opened, 1), jobsOf(log));
      const current = opened.storage.tail.segments.current.number;
      const writer = new JobWriter(opened.storage);
      writer.put(5000, "new", "default");
      writer.settle(10);
      assert.equal(opened.storage.tail.segments.current.number, current);
      assert.equal(versions(disk).at(-1), FORMAT_VERSION);
      assert.equal(opened.storage.index.fullSegmentOf(5000), current);
      disk.kill();
      const again = await openBinlog(virtualOptions(disk));
      assert.deepEqual(recoveredTexts(again, 1), new Map([...jobsOf(log), ...writer.jobs]));
    });

    it(`${name}: compaction and a rewrite leave only the present version`, async () => {
      const disk = diskOf(log);
      const opened = await openBinlog(virtualOptions(disk));
      const writer = new JobWriter(opened.storage);
      for (let id = 5000; id < 6500; id++) {
        writer.put(id, "x".repeat(300));
        writer.delete(id);
        if (id % 10 === 0) writer.settle(id);
      }
      opened.storage.close(1e6);
      const whole = new Set(versions(disk));
      const options = virtualOptions(disk);
      const { verdict, books } = await readLog(options, false);
      const before = disk.names().filter((file) => file.endsWith(".log"));
      rewriteLog(options, verdict, books);
      for (const file of before) disk.unlink(file);
      assert.ok(whole.has(FORMAT_VERSION));
      assert.deepEqual([...new Set(versions(disk))], [FORMAT_VERSION]);
      disk.kill();
      assert.deepEqual(recoveredTexts(await openBinlog(virtualOptions(disk)), 1), jobsOf(log));
    });

    it(`${name}: a start that is interrupted at any disk call loses nothing`, async () => {
      for (let cutAt = 0, ended = false; !ended; cutAt++) {
        const disk = diskOf(log);
        disk.fault = () => {
          if (disk.calls > cutAt) throw Object.assign(new Error("cut"), { code: "CUT" });
        };
        ended = await openBinlog(virtualOptions(disk)).then(
          () => true,
          () => false,
        );
        disk.fault = () => {};
        disk.crash(new SeededRandom(cutAt));
        assert.deepEqual(
          recoveredTexts(await openBinlog(virtualOptions(disk)), 1),
          jobsOf(log),
          `cut at ${cutAt}`,
        );
        if (ended) assert.ok(cutAt > 3, `${cutAt} calls`);
      }
    });
  }

  it("can be salvaged", async () => {
    const log = LOGS["closed, several segments"]!;
    const disk = diskOf(log);
    const first = disk.names().sort()[0]!;
    disk.contentOf(first)[9000]! ^= 1;
    await assert.rejects(openBinlog(virtualOptions(disk)), { code: "BINLOG_CORRUPT" });
    disk.kill();
    const opened = await openBinlog({ ...virtualOptions(disk), salvage: true });
    const found = recoveredTexts(opened, 1);
    assert.ok(found.size > 100, `${found.size} jobs`);
    assert.ok(versions(disk).every((version) => version === FORMAT_VERSION));
  });

  it("opens the same where its headers say version 2, which has more but changes nothing", async () => {
    for (const log of Object.values(LOGS)) {
      const disk = diskOf(log);
      for (const name of disk.names().filter((each) => each.endsWith(".log"))) {
        const header = disk.contentOf(name);
        new DataView(header.buffer, header.byteOffset).setUint32(8, 2, true);
        resealHeader(header);
      }
      assert.deepEqual(recoveredTexts(await openBinlog(virtualOptions(disk)), 1), jobsOf(log));
      assert.equal(versions(disk).at(-1), FORMAT_VERSION);
    }
  });

  it("of an unknown version is refused and stays unchanged", async () => {
    const disk = diskOf(LOGS["closed, several segments"]!);
    const name = disk.names().sort().at(-1)!;
    const header = disk.contentOf(name);
    new DataView(header.buffer, header.byteOffset).setUint32(8, FORMAT_VERSION + 1, true);
    resealHeader(header);
    const changes = disk.calls;
    const before = Buffer.from(disk.contentOf(name));
    disk.fault = (call) => assert.ok(call === "open" || call === "read", call);
    await assert.rejects(openBinlog(virtualOptions(disk)), { code: "BINLOG_VERSION" });
    assert.ok(disk.calls > changes && before.equals(disk.contentOf(name)));
  });
});

function resealHeader(header: Uint8Array): void {
  new DataView(header.buffer, header.byteOffset).setUint32(60, crc32(header.subarray(0, 60)), true);
}
