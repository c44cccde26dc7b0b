// Tests of the number of jobs that a rate-limited tube gives over time, with a client waiting for
// each.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { RETIRED_LIMITERS_MAX, RetiredLimiters } from "../../../../src/engine/queues/token-bucket.ts";
import { RateLimiter } from "../../../../src/engine/tubes/rate-limiter.ts";
import type { TubePolicy } from "../../../../src/engine/tubes/tube-settings.ts";
import { NOTHING_SET, type SettingValues } from "../../../../src/schema/setting.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";
import { checkInvariants } from "../../../support/in-process/engine-invariants.ts";
import { setTubes } from "../../../support/in-process/set-tubes.ts";

const SECOND_MS = 1000;

function put(engine: Engine, tube: string, id: number, nowMs: number): void {
  const times = { delaySeconds: 0, delayMillis: 0, ttrSeconds: 600, atMs: nowMs };
  engine.put(engine.session(0), { id, pri: 0, bodyBytes: 0, ...times }, EMPTY_BODY, nowMs, tube);
}

/**
 * Returns how many of `jobs` waiting clients have one after a second in which the engine runs
 * whenever it wants to.
 */
function givenInSecond(values: Partial<SettingValues>, jobs: number): { given: number; turns: number } {
  let given = 0;
  const effects = unheardEffects({ reserved: () => given++ });
  const engine = new Engine({ effects, ownsDefaultTube: true });
  setTubes(engine, "t", values, 0);
  for (let client = 1; client <= jobs; client++) {
    engine.watch(engine.session(client), "t");
    engine.reserve(engine.session(client), Number.POSITIVE_INFINITY, 0);
  }
  for (let id = 1; id <= jobs; id++) put(engine, "t", id, 0);
  let turns = 0;
  for (; engine.nextDueAtMs <= SECOND_MS; turns++) engine.runDue(engine.nextDueAtMs);
  return { given, turns };
}

describe("RateLimiter", () => {
  for (const perSecond of [1, 3, 7, 300, 700, 1500, 5000])
    it(`gives waiters ${perSecond} jobs a second, one at a time`, () => {
      const { given, turns } = givenInSecond({ rate: `${perSecond}/1` }, perSecond + 10);
      // The first is there at once, and rounding may make the last one a hair too late.
      assert.ok(given === perSecond + 1 || given === perSecond, `${given} were given`);
      assert.ok(turns <= perSecond + 1, `${turns} turns`);
    });

  it("isn't full again when its tube returns", () => {
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    setTubes(engine, "t", { rate: "1/10" }, 0);
    const worker = engine.session(1);
    const take = (id: number, nowMs: number): number => {
      put(engine, "t", id, nowMs);
      engine.watch(worker, "t");
      const slot = engine.reserve(worker, 0, nowMs);
      engine.delete(worker, id, nowMs);
      engine.ignore(worker, "t");
      assert.equal(engine.findTube("t"), undefined);
      return slot;
    };
    assert.ok(take(1, 0) >= 0);
    assert.ok(take(2, 1) < 0);
    assert.ok(take(3, 9999) < 0);
    assert.ok(take(4, 10_000) >= 0);
    // With another rate it is another bucket.
    setTubes(engine, "t", { rate: "1/100" }, 10_001);
    assert.ok(take(5, 10_001) >= 0);
    assert.ok(take(6, 10_002) < 0);
  });

  describe("as a token bucket", () => {
    /** A policy of ten jobs a second, and that many at once. */
    const policy = (burst: number, rate = "10/1") => ({ ...NOTHING_SET, rate, burst, sources: new Map() });
    const bucket = (burst: number): RateLimiter => {
      const limiter = new RateLimiter();
      limiter.set(policy(burst), 0);
      return limiter;
    };

    it("owes no more than its burst, however many are reserved by id", () => {
      const limiter = bucket(5);
      for (let taken = 0; taken < 1000; taken++) limiter.took(0);
      assert.equal(limiter.tokens(0), -5);
      assert.equal(limiter.isOpen(0, 599), false);
      assert.equal(limiter.isOpen(0, 600), true);
    });

    it("keeps no more than a smaller burst", () => {
      const limiter = bucket(100);
      limiter.set(policy(3), 0);
      assert.equal(limiter.tokens(0), 3);
      assert.equal(limiter.gives(0, 0), 3);
    });

    it("gains at the former rate until another is set", () => {
      const limiter = bucket(100);
      for (let taken = 0; taken < 100; taken++) limiter.took(0);
      limiter.set(policy(100, "1/1"), 2000);
      assert.equal(limiter.tokens(2000), 20);
      assert.equal(limiter.tokens(3000), 21);
    });
  });
});

// Tests of the token buckets of deleted tubes: kept until they are full, and limited in number.

describe("retired limiters", () => {
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
      const left = seconds.filter(
        (each) => kept.take(`in ${each}`, policyOf(each), RateLimiter) !== undefined,
      );
      assert.deepEqual(left, [50, 40, 30]);
      assert.equal(kept.nextAtMs, Number.POSITIVE_INFINITY);
    });
  });
});
