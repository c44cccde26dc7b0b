// Tests that a start refuses a segment of another time or server in place of its own.

import assert from "node:assert/strict";
import { it } from "node:test";
import { segmentName } from "../../../../src/base/text.ts";
import { openBinlog } from "../../../../src/binlog/open-binlog.ts";
import { JobWriter, virtualOptions } from "../../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";

/** A closed log of a few segments, with bodies of that length. */
async function logWith(bodyBytes: number): Promise<VirtualDisk> {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(virtualOptions(disk));
  const writer = new JobWriter(storage);
  for (let id = 1; storage.tail.segments.current.number < 4; id++) writer.put(id, "x".repeat(bodyBytes));
  storage.close(0);
  return disk;
}

it("a segment that does not continue the one before it is damage", async () => {
  const [disk, other] = [await logWith(300), await logWith(500)];
  disk.put(segmentName(2), other.contentOf(segmentName(2)));
  await assert.rejects(openBinlog(virtualOptions(disk)), {
    code: "BINLOG_CORRUPT",
    message: /0002\.log is damaged at offset 64: it begins with record \d+ instead of \d+/,
  });
});
