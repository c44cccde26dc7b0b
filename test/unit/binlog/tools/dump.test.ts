// Tests of schedules in a dump that was edited: what a server could not work with is refused.

import assert from "node:assert/strict";
import { it } from "node:test";
import { Memory } from "../../../../src/base/bytes.ts";
import { DumpReader } from "../../../../src/binlog/tools/dump.ts";
import { emptyRecordFields } from "../../../../src/message/record.ts";
import {
  type ProgressRecord,
  type ScheduleRecord,
  writeProgress,
  writeSchedule,
} from "../../../../src/message/schedule-record.ts";
import { ATTRIBUTE_BYTES_MAX, AttributeWriter } from "../../../../src/protocol/job-attribute.ts";

const RULE: ScheduleRecord = {
  name: "s",
  cron: "",
  zone: "UTC",
  missed: 0,
  everyMs: 1000,
  ttlMs: 0,
  delayMillis: 0,
};
const COUNTS = { fired: 0, runs: 0, missedTicks: 0, duplicates: 0, refusals: 0 };
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
