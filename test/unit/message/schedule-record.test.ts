// Tests of the attributes in which a schedule lies in the log, and goes to another shard.

import assert from "node:assert/strict";
import { it } from "node:test";
import { asciiBytes, Memory } from "../../../src/base/bytes.ts";
import {
  readSchedule,
  type WholeSchedule,
  writeProgress,
  writeSchedule,
} from "../../../src/message/schedule-record.ts";
import { ATTRIBUTE_BYTES_MAX, Attribute, AttributeWriter } from "../../../src/protocol/job-attribute.ts";

it("a schedule is read as it was written, with the attributes of its jobs", () => {
  const ofJobs = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
  ofJobs.text(Attribute.Group, asciiBytes("customer"), 0, 8);
  ofJobs.uint16(Attribute.Weight, 300);
  for (const pair of ["a:1", "b:2"]) ofJobs.text(Attribute.Meta, asciiBytes(pair), 0, pair.length);
  const schedule: WholeSchedule = {
    ...{ name: "nightly", cron: "0 3 * * *", zone: "Europe/Berlin", missed: 2, overlap: 1 },
    ...{ everyMs: 0, ttlMs: 5000, delayMillis: 250, paused: true, version: 7, anchorMs: 8, lastMs: 9 },
    ...{ heldMs: 15, lateJobs: 16 },
    ...{ fired: 10, runs: 11, missedTicks: 12, duplicates: 13, refusals: 14, skipped: 15 },
    attributes: ofJobs.bytes.slice(0, ofJobs.length),
  };
  const writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
  writeSchedule(writer, schedule);
  writeProgress(writer, schedule);
  const { length } = writer;
  writer.bytes.set(schedule.attributes, length);
  assert.deepEqual(readSchedule(writer.bytes, 0, length + schedule.attributes.length), schedule);
});
