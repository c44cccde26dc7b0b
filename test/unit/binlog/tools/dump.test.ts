// Tests of schedules in a dump that was edited: what a server could not work with is refused.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Memory } from "../../../../src/base/bytes.ts";
import { FOREIGN_ID_LIMIT } from "../../../../src/binlog/segments/segment-format.ts";
import { DumpReader } from "../../../../src/binlog/tools/dump.ts";
import { emptyRecordFields } from "../../../../src/message/record.ts";
import {
  type ProgressRecord,
  type ScheduleRecord,
  writeProgress,
  writeSchedule,
} from "../../../../src/message/schedule-record.ts";
import { ATTRIBUTE_BYTES_MAX, AttributeWriter } from "../../../../src/protocol/job-attribute.ts";
import { FIXED_COUNTERS, JOB_COUNTERS } from "../../../../src/schema/job.ts";

const RULE: ScheduleRecord = {
  name: "s",
  cron: "",
  zone: "UTC",
  missed: 0,
  overlap: 0,
  everyMs: 1000,
  ttlMs: 0,
  delayMillis: 0,
};
const COUNTS = { fired: 0, runs: 0, missedTicks: 0, duplicates: 0, refusals: 0, skipped: 0 };
const PROGRESS: ProgressRecord = {
  paused: false,
  version: 1,
  anchorMs: 1,
  lastMs: 0,
  heldMs: 0,
  lateJobs: 0,
  ...COUNTS,
};

function attributesOf(change: Partial<ScheduleRecord & ProgressRecord>): Uint8Array {
  const writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
  writeSchedule(writer, { ...RULE, ...change });
  writeProgress(writer, { ...PROGRESS, ...change });
  return writer.bytes.subarray(0, writer.pad());
}

function read(attributes: Uint8Array, deadlineAtMs = 5, reader = begun()): void {
  const fields = { ...emptyRecordFields(), id: 7, state: "schedule", deadlineAtMs };
  const counts = { reserves: 0, timeouts: 0, releases: 0, buries: 0, kicks: 0 };
  const job = { ...fields, ...counts, tube: "t", bodyBytes: 0, body: "" };
  reader.line(JSON.stringify({ ...job, attributes: Buffer.from(attributes).toString("base64") }));
}

function begun(): DumpReader {
  const reader = new DumpReader();
  reader.line('{"runnerbeanDump":2,"nextId":10}');
  return reader;
}

it("a dump is refused if a schedule in it isn't possible", () => {
  for (const change of [
    {},
    { everyMs: 0, cron: "x" },
    { anchorMs: -5, lastMs: 8.64e15 },
    { name: "other", paused: true, fired: 2 ** 50 },
  ])
    assert.doesNotThrow(() => read(attributesOf(change)));
  const odd = { message: /Line 2 .*: the schedule is incomplete or invalid/ };
  for (const change of [
    { everyMs: Number.NaN },
    { everyMs: 999 },
    { everyMs: -1000 },
    { everyMs: 1e300 },
    { anchorMs: Number.NaN },
    { anchorMs: Number.POSITIVE_INFINITY },
    { lastMs: 8.65e15 },
    { version: -1 },
    { fired: Number.NaN },
    { name: "" },
  ])
    assert.throws(() => read(attributesOf(change)), odd, JSON.stringify(change));
  assert.throws(() => read(attributesOf({}), 1e300), odd);
  const short = attributesOf({});
  // The tag of the rule follows the name.
  short[4] = 16;
  assert.throws(() => read(short), { code: "BINLOG_INPUT" });
  const twice = begun();
  read(attributesOf({}), 5, twice);
  assert.throws(() => read(attributesOf({}), 5, twice), { message: /Line 3 .*: the schedule appears twice/ });
});

// Tests of the jobs in the lines of a dump that was edited.

describe("dump lines", () => {
  function readJob(fields: Readonly<Record<string, unknown>>): void {
    const reader = new DumpReader();
    reader.line(`{"runnerbeanDump":2,"nextId":${FOREIGN_ID_LIMIT}}`);
    const counts = Object.fromEntries(JOB_COUNTERS.slice(0, FIXED_COUNTERS).map((name) => [name, 0]));
    const job = {
      ...emptyRecordFields(),
      ...counts,
      id: 1,
      state: "ready",
      tube: "t",
      bodyBytes: 0,
      body: "",
    };
    reader.line(JSON.stringify({ ...job, ...fields }));
  }

  const read = (id: number): void => readJob({ id });

  it("a dump is refused if a job in it has an id that no server gives", () => {
    for (const id of [1, FOREIGN_ID_LIMIT - 1]) assert.doesNotThrow(() => read(id), `${id}`);
    for (const id of [0, 1.5, FOREIGN_ID_LIMIT, 2 ** 60])
      assert.throws(() => read(id), { message: /Line 2 .*: id is not a job id/ }, `${id}`);
  });

  it("a dump is refused if a record can't hold a number in it", () => {
    const counts = [
      "pri",
      "delaySeconds",
      "ttrSeconds",
      "reserves",
      "timeouts",
      "releases",
      "buries",
      "kicks",
    ];
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
});
