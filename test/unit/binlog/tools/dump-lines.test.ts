// Tests of the ids in the lines of a dump that was edited.

import assert from "node:assert/strict";
import { it } from "node:test";
import { FOREIGN_ID_LIMIT } from "../../../../src/binlog/format/segment-format.ts";
import { DumpReader } from "../../../../src/binlog/tools/dump.ts";
import { emptyRecordFields } from "../../../../src/message/record.ts";

function read(id: number): void {
  const reader = new DumpReader();
  reader.line(`{"runnerbeanDump":2,"nextId":${FOREIGN_ID_LIMIT}}`);
  const job = { ...emptyRecordFields(), id, state: "ready", tube: "t", bodyBytes: 0, body: "" };
  reader.line(JSON.stringify(job));
}

it("a dump is refused if a job in it has an id that no server gives", () => {
  for (const id of [1, FOREIGN_ID_LIMIT - 1]) assert.doesNotThrow(() => read(id), `${id}`);
  for (const id of [0, 1.5, FOREIGN_ID_LIMIT, 2 ** 60])
    assert.throws(() => read(id), { message: /Line 2 .*: id is not a job id/ }, `${id}`);
});
