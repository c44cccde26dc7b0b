// Tests of a backup's archive: cut off anywhere, damaged anywhere, and restored with an end at any
// moment, it is refused, or it is whole.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { crc32 } from "node:zlib";
import {
  BackupReader,
  backupEnd,
  backupHead,
  paddingOf,
  segmentHead,
} from "../../../src/base/backup-archive.ts";
import { segmentName } from "../../../src/base/text.ts";
import { openBinlog } from "../../../src/binlog/open-binlog.ts";
import { segmentNumbers } from "../../../src/binlog/recovery/read-log.ts";
import { restoreBackup } from "../../../src/binlog/tools/restore-backup.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { recoveredTexts } from "../model.ts";
import { largerLog, virtualOptions } from "../sample/sample-log.ts";
import { VirtualDisk } from "../virtual-disk.ts";

const AT_MS = 1_700_000_000_000;

/** An archive of a closed log, whose last segment is empty, and its jobs. */
async function archived(): Promise<{ archive: Uint8Array; jobs: Map<number, string> }> {
  const { disk, jobs } = await largerLog();
  const numbers = segmentNumbers(disk);
  const last = numbers.at(-1)! - 1;
  const files = [last + 1, ...numbers.slice(0, -1)].map((number) => ({
    number,
    bytes: disk.contentOf(segmentName(number)),
  }));
  const bytes = files.reduce((sum, file) => sum + file.bytes.length, 0);
  const parts = [
    ...backupHead({ version: "test", createdAtMs: AT_MS, oldest: numbers[0]!, last, bytes }),
    ...files.flatMap((file) => [
      segmentHead(file.number, file.bytes.length, AT_MS),
      file.bytes,
      paddingOf(file.bytes.length),
    ]),
    ...backupEnd(
      files.map((file) => crc32(file.bytes)),
      AT_MS,
    ),
  ];
  // No Buffer: its slices would share memory with what the disk tears.
  return { archive: new Uint8Array(Buffer.concat(parts)), jobs };
}

async function* inPieces(bytes: Uint8Array, pieceBytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

const restore = (disk: VirtualDisk, archive: Uint8Array, pieceBytes = 50_000): Promise<void> =>
  restoreBackup(disk, inPieces(archive, pieceBytes), () => {});

async function jobsOn(disk: VirtualDisk): Promise<Map<number, string>> {
  const opened = await openBinlog(virtualOptions(disk));
  return recoveredTexts(opened, 1);
}

describe("a backup", () => {
  it("is restored from pieces of any length", async () => {
    const { archive, jobs } = await archived();
    for (const pieceBytes of [7, 511, 512, 4097, archive.length]) {
      const disk = new VirtualDisk();
      await restore(disk, archive, pieceBytes);
      assert.equal(disk.openHandles, 0);
      assert.deepEqual(await jobsOn(disk), jobs);
    }
  });

  it("that is cut off is refused, and leaves nothing", async () => {
    const { archive } = await archived();
    // Only zeros follow the checksums.
    const whole = archive.length - 1024 - 512;
    for (let length = 0; length < whole; length += 1 + Math.floor(whole / 60)) {
      const disk = new VirtualDisk();
      await assert.rejects(restore(disk, archive.subarray(0, length)), (error: Error) => {
        assert.match(
          error.message,
          length < 1024 ? /not a backup|is truncated/ : /is truncated: it ends after \d+ bytes/,
        );
        return true;
      });
      assert.deepEqual(disk.names(), [], `cut at ${length}`);
      assert.equal(disk.openHandles, 0);
    }
  });

  it("with a flipped bit is refused, or the bit meant nothing", async () => {
    const { archive, jobs } = await archived();
    const random = new SeededRandom(1);
    let refused = 0;
    for (let round = 0; round < 150; round++) {
      const damaged = archive.slice();
      const at = random.below(archive.length);
      damaged[at]! ^= 1 << random.below(8);
      const disk = new VirtualDisk();
      const isRestored = await restore(disk, damaged).then(
        () => true,
        () => false,
      );
      if (isRestored) assert.deepEqual(await jobsOn(disk), jobs, `byte ${at}`);
      else {
        refused++;
        assert.deepEqual(disk.names(), []);
      }
    }
    assert.ok(refused > 100, `${refused} refused`);
  });

  it("says what it is if it is no backup", async () => {
    const text = (start: string): Buffer => Buffer.from(start.padEnd(2048, "x"));
    for (const [bytes, says] of [
      [text("hello"), /not a backup of runnerbean/],
      [text('{"runnerbeanDump":2,'), /it is a dump: use runnerbean binlog restore/],
      [new Uint8Array(0), /not a backup of runnerbean/],
      [new Uint8Array(2048), /not a backup of runnerbean/],
    ] as const)
      await assert.rejects(restore(new VirtualDisk(), bytes), says);
    const { archive } = await archived();
    const newer = Buffer.from(
      Buffer.from(archive).toString("latin1").replace('"runnerbeanBackup":1', '"runnerbeanBackup":2'),
      "latin1",
    );
    await assert.rejects(restore(new VirtualDisk(), newer), /its format is 2, and this program reads 1/);
    const reader = new BackupReader(crc32);
    assert.throws(
      () => [...reader.take(Buffer.concat([archive, Buffer.from("more")]))],
      /there are bytes after its end/,
    );
  });

  for (const way of ["kill", "power cut"] as const) {
    it(`whose restore ends by a ${way} at any disk call leaves no partial log`, async () => {
      const { archive, jobs } = await archived();
      let refused = 0;
      for (let cutAt = 0; ; cutAt++) {
        const disk = new VirtualDisk();
        disk.fault = () => {
          if (disk.calls > cutAt) throw Object.assign(new Error("cut"), { code: "CUT" });
        };
        const isDone = await restore(disk, archive).then(
          () => true,
          () => false,
        );
        disk.fault = () => {};
        if (way === "kill") disk.kill();
        else disk.crash(new SeededRandom(cutAt));
        if (segmentNumbers(disk).length > 0) {
          const found = await jobsOn(disk).catch((error) => {
            assert.equal(error.code, "BINLOG_MISSING_FILE", `cut at call ${cutAt}: ${error.message}`);
            assert.ok(!isDone, "a finished restore is in place");
            refused++;
          });
          if (found !== undefined) assert.deepEqual(found, jobs, `cut at call ${cutAt}`);
        } else assert.ok(!isDone, "a finished restore is in place");
        if (isDone) break;
        assert.ok(cutAt < 1000, "a restore ends");
      }
      assert.ok(refused > 10, `${refused} refused`);
    });
  }
});
