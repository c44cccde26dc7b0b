// Tests of the state in which a start hands over a job whose last UPDATE names its tube, and has
// attributes.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Memory } from "../../../../src/base/bytes.ts";
import { openBinlog } from "../../../../src/binlog/open-binlog.ts";
import { emptyRecordFields, encodePutHead, encodeUpdate } from "../../../../src/message/record.ts";
import { Attribute, AttributeWriter } from "../../../../src/protocol/job-attribute.ts";
import { jobText, recoveredTexts } from "../../../binlog/model.ts";
import { JobWriter, virtualOptions } from "../../../binlog/sample/sample-log.ts";
import { VirtualDisk } from "../../../binlog/virtual-disk.ts";

function expiresAt(ms: number): Buffer {
  const writer = new AttributeWriter(Memory.ofSize(1020));
  writer.float64(Attribute.ExpiresAt, ms);
  return Buffer.from(writer.bytes.subarray(0, writer.pad()));
}

it("a moved job has its new tube and attributes, whether their names are as long as before or not", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(virtualOptions(disk));
  const memory = Memory.ofSize(1000);
  const expected = new Map<number, string>();
  let n = 0;
  for (const [index, tube] of ["bb", "b", "longer", "a-longer-name"].entries()) {
    const fields = { ...emptyRecordFields(), id: index + 1, pri: 5, ttrSeconds: 60, createdAtMs: 1000 };
    const body = `body ${index}`;
    const bodyAt = encodePutHead(memory, 0, fields, Buffer.from("aa"), body.length, expiresAt(7e12));
    memory.bytes.set(Buffer.from(body), bodyAt);
    storage.append(0, ++n, memory.bytes, 0, bodyAt + body.length);
    fields.pri = 6;
    const length = encodeUpdate(memory, 0, fields, Buffer.from(tube), expiresAt(8e12));
    storage.append(0, ++n, memory.bytes, 0, length);
    expected.set(fields.id, jobText(fields, tube, body, expiresAt(8e12).toString("hex")));
  }
  storage.close(0);
  assert.deepEqual(recoveredTexts(await openBinlog(virtualOptions(disk)), 1), expected);
});

it("a start hands over no batch without jobs", async () => {
  const disk = new VirtualDisk();
  const { storage } = await openBinlog(virtualOptions(disk));
  const writer = new JobWriter(storage);
  for (let id = 1; id <= 9; id++) writer.put(id, "x");
  writer.bury(4, 1);
  storage.close(0);
  const { jobs } = await openBinlog(virtualOptions(disk));
  assert.deepEqual(
    [...jobs(() => 0)].map((batch) => batch.jobs.map(({ length }) => length)),
    [[9]],
  );
});
