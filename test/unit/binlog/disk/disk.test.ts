// Tests of whole files: what is in them after one was written over another.

import assert from "node:assert/strict";
import { it } from "node:test";
import { readWhole, replaceWhole, writeWhole } from "../../../../src/binlog/disk/disk.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";

it("a file that is written again, or over what an interrupted replacement left, has nothing of the old one", () => {
  const disk = new VirtualDisk();
  const [long, short] = [Buffer.from("a longer text"), Buffer.from("short")];
  writeWhole(disk, "file", long);
  writeWhole(disk, "file", short);
  assert.deepEqual(Buffer.from(readWhole(disk, "file")), short);
  disk.put("file.new", long);
  replaceWhole(disk, "file", ".new", Buffer.from("s"));
  assert.equal(`${Buffer.from(readWhole(disk, "file"))}`, "s");
  assert.deepEqual(disk.names(), ["file"]);
  assert.equal(disk.openHandles, 0);
});
