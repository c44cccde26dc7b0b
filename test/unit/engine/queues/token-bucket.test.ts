// Tests of token buckets with costs, and of those of groups.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { JobAttributes } from "../../../../src/engine/jobs/new-job.ts";
import { TokenBucket } from "../../../../src/engine/queues/token-bucket.ts";
import { Attribute } from "../../../../src/protocol/job-attribute.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";
import { setTubes } from "../../../support/in-process/set-tubes.ts";

describe("TokenBucket", () => {
  it("needs all that it holds for a job that costs more, and owes the rest", () => {
    const bucket = new TokenBucket().set({ rate: "1/1", burst: 3 }, 0);
    assert.ok(bucket.hasFor(25, 0));
    bucket.took(0, 25);
    assert.equal(bucket.tokens(0), -22);
    assert.equal(bucket.tokenAtMs(0), 23_000);
    assert.equal(bucket.tokenAtMs(0, 25), 25_000);
    assert.ok(!bucket.hasFor(25, 24_999));
    assert.ok(bucket.hasFor(25, bucket.tokenAtMs(24_999, 25)));
  });
});

describe("a rate of groups", () => {
  /** Puts a job of a group, at its cost. */
  function put(engine: Engine, id: number, group: string, cost: number, nowMs: number): void {
    const attributes = new JobAttributes();
    attributes.fixed.text(Attribute.Group, Buffer.from(group), 0, group.length);
    attributes.fixed.uint16(Attribute.Cost, cost);
    const job = { id, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 600, bodyBytes: 0, atMs: nowMs };
    engine.put(engine.session(0), job, EMPTY_BODY, nowMs, "t", attributes);
  }

  it("gives each group its work per second, to clients that wait", () => {
    const given = { dear: 0, cheap: 0 };
    const reserved = (_: unknown, slot: number): void => {
      given[engine.jobs.costOf(slot) === 1 ? "cheap" : "dear"]++;
    };
    const engine = new Engine({ effects: unheardEffects({ reserved }), ownsDefaultTube: true });
    setTubes(engine, "t", { groupRate: "10/1" }, 0);
    for (let client = 1; client <= 300; client++) {
      engine.watch(engine.session(client), "t");
      engine.reserve(engine.session(client), Number.POSITIVE_INFINITY, 0);
    }
    for (let id = 1; id <= 240; id += 2) {
      put(engine, id, "cheap", 1, 0);
      put(engine, id + 1, "dear", 2, 0);
    }
    while (engine.nextDueAtMs <= 10_000) engine.runDue(engine.nextDueAtMs);
    // The first ones are there at once, and rounding may make the last ones a hair too late.
    assert.ok(given.cheap === 101 || given.cheap === 100, `${given.cheap} cheap jobs`);
    assert.ok(given.dear === 51 || given.dear === 50, `${given.dear} dear jobs`);
    const waits = engine.findTube("t")!.counts.groupRateWaits;
    assert.equal(engine.groupRateWaits, waits);
    assert.ok(waits >= 148 && waits <= 152, `${waits} times a group ran out`);
  });

  it("outlives the jobs of its group and the tube, until the bucket is full", () => {
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const worker = engine.session(1);
    setTubes(engine, "t", { groupRate: "1/10" }, 0);
    const before = engine.memoryBytes;
    const take = (id: number, group: string, nowMs: number): boolean => {
      put(engine, id, group, 1, nowMs);
      engine.watch(worker, "t");
      const slot = engine.reserve(worker, 0, nowMs);
      engine.delete(worker, id, nowMs);
      engine.ignore(worker, "t");
      assert.equal(engine.findTube("t"), undefined);
      assert.equal(engine.jobs.buckets, 0);
      return slot >= 0;
    };
    assert.ok(take(1, "a", 0));
    assert.ok(!take(2, "a", 9999));
    assert.ok(take(3, "b", 9999), "another group has its own");
    assert.equal(engine.tubes.retiredBuckets.size, 2);
    assert.ok(engine.memoryBytes > before);
    for (; engine.nextDueAtMs < Number.POSITIVE_INFINITY; ) engine.runDue(engine.nextDueAtMs);
    assert.equal(engine.tubes.retiredBuckets.size, 0);
    assert.equal(engine.memoryBytes, before);
    assert.ok(take(4, "a", 20_000));
  });
});
