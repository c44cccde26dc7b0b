// Tests of the jobs in the lines of a dump that was edited.

import assert from "node:assert/strict";
import { it } from "node:test";
import { FOREIGN_ID_LIMIT } from "../../../../src/binlog/segments/segment-format.ts";
import { DumpReader } from "../../../../src/binlog/tools/dump.ts";
import { emptyRecordFields } from "../../../../src/message/record.ts";
import { FIXED_COUNTERS, JOB_COUNTERS } from "../../../../src/schema/job.ts";

function readJob(fields: Readonly<Record<string, unknown>>): void {
  const reader = new DumpReader();
  reader.line(`{"runnerbeanDump":2,"nextId":${FOREIGN_ID_LIMIT}}`);
  const counts = Object.fromEntries(JOB_COUNTERS.slice(0, FIXED_COUNTERS).map((name) => [name, 0]));
  const job = { ...emptyRecordFields(), ...counts, id: 1, state: "ready", tube: "t", bodyBytes: 0, body: "" };
  reader.line(JSON.stringify({ ...job, ...fields }));
}

const read = (id: number): void => readJob({ id });

it("a dump is refused if a job in it has an id that no server gives", () => {
  for (const id of [1, FOREIGN_ID_LIMIT - 1]) assert.doesNotThrow(() => read(id), `${id}`);
  for (const id of [0, 1.5, FOREIGN_ID_LIMIT, 2 ** 60])
    assert.throws(() => read(id), { message: /Line 2 .*: id is not a job id/ }, `${id}`);
});

it("a dump is refused if a record can't hold a number in it", () => {
  const counts = ["pri", "delaySeconds", "ttrSeconds", "reserves", "timeouts", "releases", "buries", "kicks"];
  const times = ["createdAtMs", "deadlineAtMs", "burySequence"];
  for (const key of [...counts, ...times]) {
    assert.doesNotThrow(() => readJob({ [key]: 2 ** 32 - 1 }), key);
    for (const value of [-1, null, "1", undefined, ...(times.includes(key) ? [] : [2 ** 32, 0.5])])
      assert.throws(
        () => readJob({ [key]: value }),
        { message: new RegExp(`Line 2 .*: ${key} is not`) },
        key,
      );
  }
  for (const bodyBytes of [-1, 0.5, 2 ** 30 + 1, 1e16])
    assert.throws(() => readJob({ bodyBytes }), { message: /Line 2 .*: bodyBytes is not/ }, `${bodyBytes}`);
});

it("a dump is refused if no client could name a tube in it", () => {
  for (const tube of ["a", "-".padStart(200, "x"), "A-z0+/;.$_()"])
    assert.doesNotThrow(() => readJob({ tube }), tube);
  for (const tube of ["", "-a", "a b", "a\u00e9", "\u0161", "x".repeat(201)])
    assert.throws(() => readJob({ tube }), { message: /Line 2 .*: the tube name is invalid/ }, tube);
});
