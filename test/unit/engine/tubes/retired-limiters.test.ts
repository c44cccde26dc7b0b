// Tests of the token buckets of deleted tubes: kept until they are full, and limited in number.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { rowOf } from "../../../../src/engine/jobs/job-table.ts";
import {
  RateLimiter,
  RETIRED_LIMITERS_MAX,
  RetiredLimiters,
} from "../../../../src/engine/tubes/rate-limiter.ts";
import type { TubePolicy } from "../../../../src/engine/tubes/tube-settings.ts";
import { NOTHING_SET } from "../../../../src/schema/setting.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";
import { checkInvariants } from "../../../support/in-process/engine-invariants.ts";
import { setTubes } from "../../../support/in-process/set-tubes.ts";

const SECOND_MS = 1000;

/** An engine whose tubes `g-…` give a job in so many seconds. */
function engineWith(rate: string): Engine {
  const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
  setTubes(engine, "g-*", { rate }, 0);
  return engine;
}

/**
 * A job goes through a tube of its own: put, reserved if the rate allows it, and deleted. Returns
 * whether it was reserved.
 */
function pass(engine: Engine, id: number, tube: string, nowMs: number): boolean {
  const session = engine.session(0);
  const times = { delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, atMs: nowMs };
  engine.put(session, { id, pri: 0, bodyBytes: 0, ...times }, EMPTY_BODY, nowMs, tube);
  engine.watch(session, tube);
  const slot = engine.reserve(session, 0, nowMs);
  if (slot >= 0) assert.equal(engine.jobs.pageOf(slot).id[rowOf(slot)], id);
  engine.delete(session, id, nowMs);
  engine.ignore(session, tube);
  assert.equal(engine.findTube(tube), undefined, "the tube is gone");
  return slot >= 0;
}

describe("a tube with a rate that is deleted and recreated", () => {
  it("has its old bucket until that is full", () => {
    const engine = engineWith("1/10");
    assert.ok(pass(engine, 1, "g-a", 0));
    assert.equal(engine.nextDueAtMs, 10 * SECOND_MS, "the bucket is full again");
    assert.ok(!pass(engine, 2, "g-a", 9 * SECOND_MS));
    checkInvariants(engine, [0]);
    engine.runDue(10 * SECOND_MS);
    assert.equal(engine.tubes.retiredLimiters.size, 0);
    assert.equal(engine.nextDueAtMs, Number.POSITIVE_INFINITY);
    assert.ok(pass(engine, 3, "g-a", 10 * SECOND_MS));
  });

  it("leaves nothing behind when its bucket is full, and is counted until then", () => {
    const engine = engineWith("10/1");
    const before = engine.memoryBytes;
    for (let id = 1; id <= 1000; id++) assert.ok(pass(engine, id, `g-${id}`, id));
    assert.equal(engine.tubes.retiredLimiters.size, 100, "those of the last tenth of a second");
    assert.ok(engine.memoryBytes >= before + 100 * 100);
    checkInvariants(engine, [0]);
    engine.runDue(1100);
    assert.equal(engine.tubes.retiredLimiters.size, 0);
    assert.equal(engine.memoryBytes, before);
  });

  it("is forgotten if too many such tubes come and go", () => {
    const engine = engineWith("1/4000000000");
    for (let id = 1; id <= RETIRED_LIMITERS_MAX + 500; id++) assert.ok(pass(engine, id, `g-${id}`, id));
    assert.equal(engine.tubes.retiredLimiters.size, RETIRED_LIMITERS_MAX);
    checkInvariants(engine, [0]);
    assert.ok(pass(engine, 1e6, "g-500", 1e6), "the first that went are forgotten");
    assert.ok(!pass(engine, 1e6 + 1, `g-${RETIRED_LIMITERS_MAX + 500}`, 1e6 + 1));
  });
});

describe("RetiredLimiters beyond their number", () => {
  it("forget the limiters first that are full first", () => {
    const kept = new RetiredLimiters(undefined, 3);
    const policyOf = (seconds: number): TubePolicy => ({
      ...NOTHING_SET,
      rate: `1/${seconds}`,
      sources: new Map(),
    });
    const seconds = [50, 10, 40, 20, 30];
    for (const each of seconds) {
      const limiter = new RateLimiter();
      limiter.set(policyOf(each), 0);
      limiter.took(0);
      kept.keep(`in ${each}`, limiter);
    }
    assert.equal(kept.size, 3);
    assert.equal(kept.nextAtMs, 30 * SECOND_MS);
    const left = seconds.filter((each) => kept.take(`in ${each}`, policyOf(each)) !== undefined);
    assert.deepEqual(left, [50, 40, 30]);
    assert.equal(kept.nextAtMs, Number.POSITIVE_INFINITY);
  });
});
