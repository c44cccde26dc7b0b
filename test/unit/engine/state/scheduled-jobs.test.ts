// Tests of the counts of schedules' jobs.

import assert from "node:assert/strict";
import { it } from "node:test";
import { asciiBytes, Memory } from "../../../../src/base/bytes.ts";
import { ScheduledJobs } from "../../../../src/engine/state/scheduled-jobs.ts";
import { ATTRIBUTE_BYTES_MAX, Attribute, AttributeWriter } from "../../../../src/protocol/job-attribute.ts";

function attributesOf(...pairs: string[]): AttributeWriter {
  const writer = new AttributeWriter(Memory.ofSize(ATTRIBUTE_BYTES_MAX));
  for (const pair of pairs) writer.text(Attribute.Meta, asciiBytes(pair), 0, pair.length);
  return writer;
}

it("ScheduledJobs counts jobs by the schedule that their first meta names", () => {
  const scheduled = new ScheduledJobs();
  const first = attributesOf("schedule:a@b@2026-11-27T00:00:00.000Z", "x:y");
  const second = attributesOf("schedule:a@b@now");
  scheduled.add(first.bytes, first.length);
  scheduled.add(second.bytes, second.length);
  assert.deepEqual([scheduled.size, scheduled.has("a@b"), scheduled.has("a")], [1, true, false]);
  scheduled.remove(second.bytes, second.length);
  assert.ok(scheduled.has("a@b"));
  scheduled.remove(first.bytes, first.length);
  assert.deepEqual([scheduled.size, scheduled.has("a@b")], [0, false]);
});

it("ScheduledJobs counts arrivals of a schedule's jobs while somebody asks about it", () => {
  const scheduled = new ScheduledJobs();
  const { bytes, length } = attributesOf("schedule:a@now");
  const other = attributesOf("schedule:b@now");
  scheduled.noteArrival(bytes, length);
  for (let questions = 0; questions < 2; questions++) {
    scheduled.watch("a");
    scheduled.noteArrival(bytes, length);
    scheduled.noteArrival(other.bytes, other.length);
  }
  scheduled.unwatch("a");
  assert.equal(scheduled.arrivals("a"), 2);
  scheduled.unwatch("a");
  assert.throws(() => scheduled.arrivals("a"), /while a question is open/);
});

it("ScheduledJobs counts no other jobs", () => {
  const scheduled = new ScheduledJobs();
  for (const pairs of [
    [],
    ["x:y"],
    ["x:y", "schedule:a@now"],
    ["schedule:a"],
    ["schedule:@now"],
    ["schedule:"],
    ["a:"],
  ]) {
    const { bytes, length } = attributesOf(...pairs);
    scheduled.add(bytes, length);
    assert.equal(scheduled.size, 0, pairs.join());
    scheduled.remove(bytes, length);
  }
});
