// Tests of the number of jobs that a rate-limited tube gives over time, with a client waiting for
// each.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { RateLimiter } from "../../../../src/engine/tubes/rate-limiter.ts";
import { NOTHING_SET, type SettingValues } from "../../../../src/schema/setting.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";
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
