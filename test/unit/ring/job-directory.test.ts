import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { JobDirectory, UNKNOWN_SHARD } from "../../../src/ring/job-directory.ts";
import { checkProperty } from "../../support/seeded-property.ts";

const ENTRIES = JobDirectory.BYTES / 4;
const directory = (): JobDirectory => new JobDirectory(new SharedArrayBuffer(JobDirectory.BYTES));

it("JobDirectory knows nothing at first", () => {
  for (const id of [0, 1, ENTRIES, 2 ** 40]) assert.equal(directory().find(id), UNKNOWN_SHARD);
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
