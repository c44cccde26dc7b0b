// Tests of the request rate: exactly the allowed number per second, for each client separately, and
// nothing is kept forever.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RequestRate } from "../../../../src/http/limits/request-limit.ts";

/** Returns how many of `times` are allowed. */
function taken(rate: RequestRate, client: string, nowMs: number, times: number): number {
  let count = 0;
  for (let time = 0; time < times; time++) if (rate.take(client, nowMs)) count++;
  return count;
}

describe("RequestRate", () => {
  it("allows a second's requests at once, then refills with time", () => {
    const rate = new RequestRate(10);
    assert.equal(taken(rate, "a", 0, 50), 10);
    assert.equal(taken(rate, "a", 99, 5), 0);
    assert.equal(taken(rate, "a", 100, 5), 1);
    assert.equal(taken(rate, "a", 600, 50), 5);
    assert.equal(taken(rate, "a", 100_000, 50), 10);
  });

  it("counts per client, without refused requests", () => {
    const rate = new RequestRate(2);
    assert.equal(taken(rate, "a", 0, 1000), 2);
    assert.equal(taken(rate, "b", 0, 1), 1);
    let allowed = 0;
    for (let nowMs = 1; nowMs <= 10_000; nowMs++) allowed += taken(rate, "a", nowMs, 3);
    assert.equal(allowed, 20);
  });

  it("can change, and is off at Infinity", () => {
    const rate = new RequestRate(Number.POSITIVE_INFINITY);
    assert.equal(taken(rate, "a", 0, 1000), 1000);
    rate.configure(1);
    assert.equal(taken(rate, "a", 0, 10), 1);
    rate.configure(Number.POSITIVE_INFINITY);
    assert.equal(taken(rate, "a", 0, 1000), 1000);
  });

  it("remembers a bounded number, and forgets the longest idle client", () => {
    const rate = new RequestRate(1);
    for (let client = 0; client < 10_001; client++) assert.ok(rate.take(`${client}`, 0));
    assert.ok(!rate.take("10000", 0), "the last is remembered");
    assert.ok(rate.take("0", 0), "the first was forgotten");
  });
});
