// Tests of the check of one sealed file: where it says that damage is, and whose.

import assert from "node:assert/strict";
import fs, { writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { it } from "node:test";
import { segmentName } from "../../../../src/base/text.ts";
import { openBinlog } from "../../../../src/binlog/open-binlog.ts";
import { type CheckedFile, checkFile, checkInThread } from "../../../../src/binlog/recovery/check-file.ts";
import { JobWriter, virtualOptions } from "../../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";
import { temporaryFolder } from "../../../support/machine/temporary-folder.ts";

/** The content of a sealed segment, with jobs whose bodies say which they are. */
async function sealed(number: number): Promise<Buffer> {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(virtualOptions(disk));
  const writer = new JobWriter(storage);
  for (let id = 1; storage.tail.segments.current.number < 4; id++)
    writer.put(id, `body of ${id} `.padEnd(300, "x"));
  storage.close(0);
  return Buffer.from(disk.contentOf(segmentName(number)));
}

it("a sealed file is whole, or its damage has a place, a length and the job", async (t) => {
  const folder = temporaryFolder(t, "check-file");
  const check = async (content: Buffer): Promise<CheckedFile> => {
    writeFileSync(join(folder, segmentName(2)), content);
    return (await checkFile(folder, 2))!;
  };
  const content = await sealed(2);
  assert.deepEqual(await check(content), { bytes: content.length, damage: [] });

  const body = content.indexOf("body of ");
  const id = Number.parseInt(content.toString("latin1", body + 8, body + 20), 10);
  const next = content.indexOf("body of ", body + 1);
  const flipped = Buffer.from(content);
  flipped[body + 20]! ^= 1;
  const { damage } = await check(flipped);
  assert.equal(damage.length, 1);
  const { offset, bytes, jobs } = damage[0]!;
  assert.ok(offset < body && offset + bytes > body && offset + bytes < next, `${offset}, ${bytes} bytes`);
  assert.deepEqual(jobs, [id]);

  const cut = await check(content.subarray(0, next));
  assert.equal(cut.damage.length, 1);
  const other = await check(await sealed(3));
  assert.match(other.damage[0]!.reason, /another's/);
});

it("a file that is removed has no damage, and one that the disk can't read is damaged", async (t) => {
  const folder = temporaryFolder(t, "check-file");
  assert.equal(await checkInThread(folder, 2), undefined);

  writeFileSync(join(folder, segmentName(2)), await sealed(2));
  t.mock.method(fs, "readSync", () => {
    throw Object.assign(new Error("EIO: i/o error, read"), { code: "EIO" });
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  const { damage } = (await checkFile(folder, 2))!;
  assert.deepEqual(damage, [
    { segment: 2, offset: 0, bytes: 0, jobs: [], reason: "the disk cannot read it (EIO)" },
  ]);
});
