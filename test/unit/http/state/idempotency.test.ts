// Tests of idempotency keys: in progress, failed, and old.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { IdempotencyKeys } from "../../../../src/http/state/idempotency.ts";

const KEPT_MS = 10 * 60_000;
const answer = { status: 201, payload: { id: 1 }, location: undefined };

describe("IdempotencyKeys", () => {
  const keysAt = (): { keys: IdempotencyKeys; time: { nowMs: number } } => {
    const time = { nowMs: 5000 };
    return { keys: new IdempotencyKeys(() => time.nowMs), time };
  };

  it("repeat the answer for ten minutes, then start anew", () => {
    const { keys, time } = keysAt();
    assert.equal(keys.begin("a", "x"), "begun");
    keys.end("a", answer, 1);
    time.nowMs += KEPT_MS;
    assert.equal(keys.begin("a", "x"), answer);
    assert.equal(keys.begin("a", "y"), "mismatch");
    time.nowMs++;
    assert.equal(keys.begin("a", "y"), "begun");
    assert.equal(keys.size, 1);
  });

  it("start anew after a failure, also with other content", () => {
    const { keys } = keysAt();
    assert.equal(keys.begin("a", "x"), "begun");
    keys.forget("a");
    assert.equal(keys.begin("a", "y"), "begun");
  });

  it("report a request in flight, however long it takes and however many others come", () => {
    const { keys, time } = keysAt();
    assert.equal(keys.begin("a", "x"), "begun");
    time.nowMs += 2 * KEPT_MS;
    for (let other = 0; other < 100_001; other++) {
      keys.begin(`${other}`, "x");
      keys.end(`${other}`, answer, 1);
    }
    assert.equal(keys.begin("a", "x"), "in-progress");
    assert.equal(keys.begin("a", "y"), "mismatch");
    keys.end("a", answer, 1);
    assert.equal(keys.begin("a", "x"), answer);
  });

  it("keep 100,000 answers, or those of a million jobs; the oldest go first", () => {
    const { keys } = keysAt();
    const keep = (key: string, weight: number): void => {
      keys.begin(key, "x");
      keys.end(key, answer, weight);
    };
    for (let key = 0; key <= 100_000; key++) keep(`${key}`, 1);
    assert.equal(keys.size, 100_000);
    assert.equal(keys.begin("0", "x"), "begun");
    assert.equal(keys.begin("1", "x"), answer);
    for (let batch = 0; batch < 1000; batch++) keep(`batch ${batch}`, 1000);
    assert.equal(keys.begin("100000", "x"), "begun", "the batches weigh as much as is kept");
    assert.equal(keys.begin("batch 0", "x"), answer);
    keep("batch 1000", 1000);
    assert.equal(keys.begin("batch 0", "x"), "begun");
  });

  it("costs the same per key, however many have been forgotten", () => {
    const { keys } = keysAt();
    const begin = process.cpuUsage();
    for (let key = 0; key < 300_000; key++) {
      keys.begin(`${key}`, "x");
      keys.end(`${key}`, answer, 1);
    }
    const { user } = process.cpuUsage(begin);
    // Less than a second, also on a busy machine; twenty where each sweep begins at the first key
    // ever.
    assert.ok(user < 5_000_000, `${user / 1000} ms`);
  });
});
