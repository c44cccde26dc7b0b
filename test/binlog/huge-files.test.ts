// Tests of files beyond 2 GiB: read and written in pieces, scanned to their end, refused where the
// format ends.

import assert from "node:assert/strict";
import { closeSync, openSync, readFileSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { copyBytes } from "../../src/base/bytes.ts";
import { segmentName } from "../../src/base/text.ts";
import { readFully } from "../../src/binlog/disk/disk.ts";
import { RealDisk } from "../../src/binlog/disk/real-disk.ts";
import { scanLog } from "../../src/binlog/recovery/read-log.ts";
import { scanSegment } from "../../src/binlog/recovery/segment-scan.ts";
import { encodeHeader, SEGMENT_BYTES_MAX } from "../../src/binlog/segments/segment-format.ts";
import { ExitCode } from "../../src/server/options/operator-error.ts";
import { parseOptions } from "../../src/server/options/options.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";

/** Memory that is never written to takes no room. */
const HUGE_BYTES = 2 ** 31 + 2 ** 20;

test("a read of more than 2 GiB happens in pieces", (t) => {
  const path = temporaryFolder(t);
  writeFileSync(join(path, "file"), "what there is");
  const disk = new RealDisk(path);
  const handle = disk.open("file", "read");
  const bytes = new Uint8Array(HUGE_BYTES);
  assert.equal(readFully(disk, handle, bytes, 0, bytes.length, 0), 13);
  assert.equal(Buffer.from(bytes.buffer, 0, 13).toString(), "what there is");
  disk.close(handle);
});

test("a write of more than 2 GiB happens in pieces", () => {
  // Writes to /dev/null take no room.
  const disk = new RealDisk("/dev");
  const handle = openSync("/dev/null", "w");
  const bytes = new Uint8Array(HUGE_BYTES);
  assert.throws(() => writeSync(handle, bytes, 0, HUGE_BYTES, 0), "one call does not take so many");
  assert.doesNotThrow(() => disk.write(handle, bytes, 0, HUGE_BYTES, 0));
  closeSync(handle);
});

test("pieces of a write and of a read are contiguous", (t) => {
  const path = temporaryFolder(t);
  const pieceBytes = 1000;
  const disk = new RealDisk(path, 0, pieceBytes);
  for (const length of [0, 1, pieceBytes - 1, pieceBytes, pieceBytes + 1, 10 * pieceBytes + 7]) {
    const bytes = new Uint8Array(length + 20).map((_, at) => (at * 7 + (at >> 8)) & 0xff);
    const handle = disk.open(`file-${length}`, "create");
    const position = 13;
    disk.write(handle, bytes, 5, length, position);
    assert.equal(disk.bytes(handle), length === 0 ? 0 : position + length);
    const written = readFileSync(join(path, `file-${length}`)).subarray(position);
    assert.deepEqual(Buffer.from(written), Buffer.from(bytes.subarray(5, 5 + length)));
    const got = new Uint8Array(length + 20);
    assert.equal(readFully(disk, handle, got, 3, length, position), length);
    assert.deepEqual(got.subarray(3, 3 + length), bytes.subarray(5, 5 + length));
    disk.close(handle);
  }
});

test("a scan goes on behind 2 GiB of zeros, and copies the records there", () => {
  const bytes = new Uint8Array(HUGE_BYTES);
  bytes.set(encodeHeader({ number: 1, createdAtMs: 1, maxId: 0, oldest: 1, salt: 7 }));
  assert.equal(scanSegment(bytes, 1, false).end, "zeros");
  const at = HUGE_BYTES - 1000;
  bytes[at] = 1;
  const copy = new Uint8Array(100);
  copyBytes(copy, 0, bytes, at, 100);
  assert.equal(copy[0], 1);
});

test("-s accepts what the format can hold and names that limit", () => {
  assert.ok("binlogBytes" in parseOptions(["-s", String(SEGMENT_BYTES_MAX)], "runnerbean"));
  const refused = parseOptions(["-s", String(SEGMENT_BYTES_MAX + 1)], "runnerbean");
  assert.ok("exitCode" in refused);
  assert.equal(refused.exitCode, ExitCode.Usage);
  assert.match(refused.stderr, /invalid size: 4294963201 \(-s takes bytes, .*at most 4294963200\)/);
});

test("a start refuses a larger log file without reading it", async (t) => {
  const path = temporaryFolder(t);
  const file = join(path, segmentName(1));
  writeFileSync(file, "");
  truncateSync(file, SEGMENT_BYTES_MAX + 1);
  await assert.rejects(
    scanLog({ disk: new RealDisk(path), salvage: false, parallel: true, progress: () => {} }),
    {
      code: "BINLOG_CORRUPT",
      message: /0001\.log is longer than a file of the log can be \(4294963200 bytes\)/,
    },
  );
});
