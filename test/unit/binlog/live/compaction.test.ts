// Tests of the compaction of logs that are started again and again.

import assert from "node:assert/strict";
import { it } from "node:test";
import { jobsOfLog } from "../../../binlog/model.ts";
import { openSample, virtualOptions } from "../../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";

/** Of a log whose live records fit into one segment. */
const FILES_MAX = 12;

it("starts leave a few files, however many there were, and every job", async () => {
  const disk = new VirtualDisk();
  const expected = new Map<number, string>();
  for (let id = 1; id <= 5 * FILES_MAX; id++) {
    const { opened, writer } = await openSample(disk);
    writer.put(id, "kept");
    writer.settle(id);
    opened.storage.close(id);
    for (const [each, text] of writer.jobs) expected.set(each, text);
    const files = disk.names().length;
    assert.ok(files <= FILES_MAX, `${files} files after ${id} starts`);
  }
  assert.deepEqual(await jobsOfLog(virtualOptions(disk)), expected);
});
