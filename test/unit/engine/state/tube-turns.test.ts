// Tests of the turns of watched tubes, where a simulation needs long to see a difference.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine, Outcome } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { NO_SLOT, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { HELD_LOOKS_MAX, Share, TubeTurns } from "../../../../src/engine/state/tube-turns.ts";
import type { Tube } from "../../../../src/engine/tubes/tube.ts";
import { ReserveOrder } from "../../../../src/protocol/request.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";

const JOB_COST = 5040;
/** Begins half a job behind the floor, which is 0. */
const FIRST_PLACE = JOB_COST / 2;

describe("the turn of a tube", () => {
  it("loses nothing when the weight does not divide the cost", () => {
    for (const weight of [1, 11, 840, 997, 1000]) {
      const share = new Share();
      share.weight = weight;
      share.turn = 0;
      for (let job = 0; job < weight; job++) share.charge(JOB_COST);
      assert.equal(share.turn, JOB_COST, `weight ${weight}`);
      assert.equal(share.remainder, 0);
    }
  });
});

it("a choice by time looks at a thousand tubes with held jobs, and the next one at the others", () => {
  for (const count of [1, HELD_LOOKS_MAX, HELD_LOOKS_MAX + 1]) {
    const turns = new TubeTurns({ shares: 0 });
    turns.begin(ReserveOrder.WeightedTime, 0);
    const tubes = Array.from({ length: count }, (_, index) => ({ index }) as Tube);
    for (const tube of tubes) {
      turns.watch(tube);
      turns.took(tube, 0);
      assert.ok(Number.isNaN(turns.placeNow(tube)));
    }
    const seen = new Set<Tube>();
    const looks = turns.eachHeld(
      () => true,
      (tube) => seen.add(tube),
    );
    assert.deepEqual([looks, seen.size], Array(2).fill(Math.min(count, HELD_LOOKS_MAX)));
    turns.eachHeld(
      () => true,
      (tube) => seen.add(tube),
    );
    assert.equal(seen.size, count);
  }
});

/** An engine whose tube `a` has job 5 of priority 7, and a client that picks from it by weight. */
function client(): { take: (place: number, pri: number, id: number) => number } {
  const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
  const session = engine.session(0);
  engine.watch(session, "a");
  const job = { id: 5, pri: 7, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
  assert.equal(engine.put(session, job, EMPTY_BODY, 0, "a", undefined), Outcome.Done);
  engine.setOrder(session, ReserveOrder.Weighted, 0);
  return {
    take(place, pri, id) {
      const slot = engine.takeInTurn(session, place, pri, id, 0);
      return slot === NO_SLOT ? 0 : engine.jobs.pageOf(slot).id[rowOf(slot)]!;
    },
  };
}

describe("a job taken by weight", () => {
  it("comes before the second-best candidate of all shards", () => {
    assert.equal(client().take(FIRST_PLACE - 1, 9, 9), 0, "its turn comes later");
    assert.equal(client().take(FIRST_PLACE + 1, 0, 1), 5, "its turn comes earlier");
    assert.equal(client().take(FIRST_PLACE, 6, 9), 0, "the same turn, worse priority");
    assert.equal(client().take(FIRST_PLACE, 7, 4), 0, "the same turn and priority, later id");
    assert.equal(client().take(FIRST_PLACE, 7, 6), 5, "the same turn and priority, earlier id");
    assert.equal(client().take(FIRST_PLACE, 8, 1), 5, "the same turn, better priority");
  });
});

describe("the work of a client that weighs tubes", () => {
  it("is charged: for an order, a reserve and a batch", () => {
    // With a few more, it keeps them in an order.
    const tubes = 60;
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const session = engine.session(0);
    const job = { pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
    for (let tube = 0; tube < tubes; tube++) {
      engine.watch(session, `t${tube}`);
      engine.put(session, { ...job, id: tube + 1 }, EMPTY_BODY, 0, `t${tube}`, undefined);
    }
    const charged = (work: () => void): number => {
      engine.looks = 0;
      work();
      return engine.looks;
    };
    engine.weigh(session, "t0", 3, 0);
    assert.ok(charged(() => engine.setOrder(session, ReserveOrder.Weighted, 0)) >= tubes);
    const limits = { jobsMax: 1, bytesMax: 1000 };
    for (const reserve of [
      () => void engine.reserve(session, 0, 0),
      () => void engine.batchReserves.reserve(session, limits, 0, 0, []),
      () => void engine.batchReserves.list(session, limits, 0, [], []),
    ])
      assert.ok(charged(reserve) > 2 * tubes);
  });
});

it("a tube that is ignored while a job of it is held has no weight when it is watched again", () => {
  const turns = new TubeTurns({ shares: 0 });
  turns.begin(ReserveOrder.Weighted, 0);
  const tube = { index: 0 } as Tube;
  turns.watch(tube);
  turns.weigh(tube, 5, 0);
  turns.took(tube, 0);
  turns.unwatch(tube);
  turns.watch(tube);
  const share = turns.shareOf(tube);
  assert.deepEqual([share.weight, share.held], [1, 1]);
  turns.enter(tube);
  const { turn } = share;
  turns.took(tube, 0);
  assert.equal(share.turn - turn, JOB_COST);
});

it("a new weight counts from now on: the time until then is charged by the former one", () => {
  const turns = new TubeTurns({ shares: 0 });
  turns.begin(ReserveOrder.WeightedTime, 0);
  const tube = { index: 0 } as Tube;
  turns.watch(tube);
  turns.took(tube, 0);
  const { turn } = turns.shareOf(tube);
  turns.weigh(tube, 3, 6);
  turns.beginChoice(12);
  turns.enter(tube);
  assert.equal(turns.shareOf(tube).turn - turn, 6000 + 6000 / 3);
});
