// Tests of the outbox's measurements, at a small size.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { canRun } from "../support/machine/need.ts";
import { NEEDS_POSTGRES } from "../support/server/postgres.ts";
import { measure, measureLoad } from "./outbox-speed.ts";

describe("the measurements of the outbox", { timeout: 300_000 }, () => {
  it("relay all rows, and wait for each single one", async (t) => {
    if (!canRun(t, NEEDS_POSTGRES)) return;
    const { rowsASecond, waitsMs } = await measure(5000, 3, 5);
    assert.ok(rowsASecond > 0);
    assert.equal(waitsMs.length, 5);
  });

  it("keep a rate, and take each job of it once", async (t) => {
    if (!canRun(t, NEEDS_POSTGRES)) return;
    const { rowsASecond, waitsMs, besideMs, waitingMost } = await measureLoad(500, 2, 3);
    // As many as were due at the last transaction, which a busy machine begins late.
    assert.ok(waitsMs.length > 0 && waitsMs.length <= 1000, `${waitsMs.length} rows`);
    assert.ok(rowsASecond > 0 && rowsASecond <= 500, `${rowsASecond} rows/s`);
    assert.deepEqual(
      waitsMs,
      waitsMs.toSorted((one, other) => one - other),
    );
    assert.ok(besideMs.length > 0);
    assert.ok(waitingMost <= 1000, `${waitingMost} rows waited`);
  });
});
