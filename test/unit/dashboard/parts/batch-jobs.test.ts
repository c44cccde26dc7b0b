// Tests of the search for the jobs of a batch: one pass over the server's jobs, bounded, which
// stops when it has found what exists.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { jobsOfBatch } from "../../../../src/dashboard/parts/batch-jobs.ts";
import type { BatchRow } from "../../../../src/dashboard/parts/view-types.ts";

/** Jobs that the server examines for a page. */
const PAGE_LOOKS = 200_000;
const PAGE_JOBS = 1000;

interface FakeJob {
  readonly id: number;
  readonly batch: string | null;
  readonly waitsFor: string | null;
}

const member = (id: number): FakeJob => ({ id, batch: "b", waitsFor: null });
const callback = (id: number): FakeJob => ({ id, batch: null, waitsFor: "b" });

const batchOf = (counts: Partial<BatchRow>): BatchRow =>
  ({ name: "b", number: 1, open: 0, failed: 0, waiting: 0, ...counts }) as BatchRow;

/** A server with these jobs among `total` ids, and the filters of the requests to it. */
function serverOf(jobs: readonly FakeJob[], total: number) {
  const asked: string[] = [];
  const get = async (path: string): Promise<unknown> => {
    const query = new URLSearchParams(path.split("?")[1]);
    const key = ["batch", "waitsFor", "ofBatch"].find((each) => query.has(each))!;
    asked.push(key);
    const after = Number(query.get("cursor") ?? 0);
    const matching = jobs.filter(
      ({ id, batch, waitsFor }) =>
        id > after &&
        id <= after + PAGE_LOOKS &&
        ((key !== "waitsFor" && batch === "b") || (key !== "batch" && waitsFor === "b")),
    );
    const items = matching.slice(0, PAGE_JOBS);
    const done = items.length < matching.length ? items.at(-1)!.id : Math.min(total, after + PAGE_LOOKS);
    const cursor = done >= total ? null : `${done}`;
    return { items, cursor, examined: done - after };
  };
  return { asked, get };
}

describe("the search for the jobs of a batch", () => {
  it("is a single pass over a million jobs, at most", async () => {
    const { asked, get } = serverOf([member(5), callback(7), member(900_000)], 3_000_000);
    // A failed member is gone, so the search can't know that it has found all.
    const found = await jobsOfBatch(batchOf({ open: 2, failed: 1, waiting: 1 }), get);
    assert.deepEqual(
      found.members.map(({ id }) => id),
      [5, 900_000],
    );
    assert.deepEqual(
      found.waiting.map(({ id }) => id),
      [7],
    );
    assert.equal(found.examined, 1_000_000);
    assert.equal(asked.length, 5);
    assert.equal(found.isWhole, false);
  });

  it("stops when it has found as many as exist, and doesn't begin for none", async () => {
    const { asked, get } = serverOf([member(5), callback(7)], 3_000_000);
    assert.equal((await jobsOfBatch(batchOf({ open: 1, waiting: 1 }), get)).isWhole, true);
    assert.deepEqual(asked, ["ofBatch"]);
    assert.deepEqual(await jobsOfBatch(batchOf({}), get), {
      members: [],
      waiting: [],
      isWhole: true,
      examined: 0,
    });
    assert.equal(asked.length, 1);
  });

  it("finds a waiting job behind thousands of members, and says that these are not all", async () => {
    const members = Array.from({ length: 5000 }, (_, at) => member(at + 2));
    const { asked, get } = serverOf([...members, callback(6000)], 400_000);
    const found = await jobsOfBatch(batchOf({ open: 5000, waiting: 2 }), get);
    assert.deepEqual(asked, ["ofBatch", "waitsFor", "waitsFor"]);
    assert.equal(found.members.length, PAGE_JOBS);
    assert.equal(found.waiting.length, 1);
    assert.equal(found.isWhole, false);
  });
});
