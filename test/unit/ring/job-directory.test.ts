import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { FileTable, JobDirectory, UNKNOWN_SHARD } from "../../../src/ring/job-directory.ts";
import { checkProperty } from "../../support/seeded-property.ts";

const ENTRIES = JobDirectory.BYTES / 4;
const directory = (): JobDirectory => new JobDirectory(new SharedArrayBuffer(JobDirectory.BYTES));

it("JobDirectory knows nothing at first", () => {
  for (const id of [0, 1, ENTRIES, 2 ** 40]) assert.equal(directory().find(id), UNKNOWN_SHARD);
});

it("JobDirectory shows by an entry that a job has moved, or that another took its place", () => {
  const table = directory();
  const id = 3 * ENTRIES + 5;
  table.set(id, 2);
  const before = table.entry(id);
  assert.equal(table.entry(id), before);
  table.set(id + 1, 3);
  assert.equal(table.entry(id), before);
  table.set(id, 3);
  assert.notEqual(table.entry(id), before);
  const moved = table.entry(id);
  table.set(ENTRIES + 5, 3);
  assert.notEqual(table.entry(id), moved);
  assert.equal(table.entry(id), table.entry(ENTRIES + 5));
});

it("JobDirectory finds the shards of the latest ids, never of another job", (t) => {
  const id = fc.oneof(
    fc.integer({ min: 1, max: 50 }),
    fc.integer({ min: 1, max: 5 }).map((lap) => lap * ENTRIES + 3),
    fc.integer({ min: 2 ** 32 - 3, max: 2 ** 32 + 3 }),
    fc.integer({ min: 2 ** 43 - 3, max: 2 ** 43 + 3 }),
  );
  checkProperty(
    t,
    fc.property(fc.array(fc.tuple(id, fc.nat(63)), { minLength: 1, maxLength: 60 }), (entries) => {
      const table = directory();
      const shards = new Map<number, number>();
      const latest = new Map<number, number>();
      for (const [job, wanted] of entries) {
        const shard = shards.get(job) ?? wanted;
        shards.set(job, shard);
        latest.set(job % ENTRIES, job);
        table.set(job, shard);
        for (const [known, its] of shards)
          assert.equal(table.find(known), latest.get(known % ENTRIES) === known ? its : UNKNOWN_SHARD);
      }
    }),
    40,
  );
});

// Tests of the table of the files of recent jobs.

describe("file table", () => {
  const ENTRIES = 2 ** 20;

  it("FileTable knows the file of a job until another job takes its place", () => {
    const table = new FileTable(new SharedArrayBuffer(FileTable.BYTES));
    assert.equal(table.find(ENTRIES + 5), 0);
    table.set(5, 1);
    table.set(6, 2 ** 24 - 1);
    table.set(ENTRIES - 1, 77);
    assert.deepEqual(
      [5, 6, ENTRIES - 1].map((id) => table.find(id)),
      [1, 2 ** 24 - 1, 77],
    );
    assert.equal(table.find(ENTRIES + 5), 0, "of another lap");
    table.set(ENTRIES + 5, 9);
    table.set(200 * ENTRIES + 6, 10);
    table.set(8, 2 ** 24 + 5);
    assert.equal(table.find(8), 5, "24 bits of a file's number");
    table.set(256 * ENTRIES + 7, 11);
    assert.equal(table.find(256 * ENTRIES + 7), 11, "of a lap whose number fills its bits");
    assert.deepEqual(
      [5, ENTRIES + 5, 6, 200 * ENTRIES + 6].map((id) => table.find(id)),
      [0, 9, 0, 10],
    );
  });
});
