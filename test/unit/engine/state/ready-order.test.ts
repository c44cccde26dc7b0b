// Tests of the order that a session with many ready tubes keeps: it gets the same jobs as with a
// scan, and looks at few.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { asciiBytes } from "../../../../src/base/bytes.ts";
import { Engine, Outcome } from "../../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../../src/engine/jobs/body-arena.ts";
import { JobState, NO_SLOT, rowOf } from "../../../../src/engine/jobs/job-table.ts";
import { JobAttributes } from "../../../../src/engine/jobs/new-job.ts";
import { HELD_LOOKS_MAX } from "../../../../src/engine/state/tube-turns.ts";
import { Attribute } from "../../../../src/protocol/job-attribute.ts";
import { ReserveOrder } from "../../../../src/protocol/request.ts";
import type { SettingValues } from "../../../../src/schema/setting.ts";
import { unheardEffects } from "../../../support/in-process/effects.ts";
import { setTubes } from "../../../support/in-process/set-tubes.ts";
import { printSeed, seed } from "../../../support/seeded-property.ts";
import { SeededRandom } from "../../../support/seeded-random.ts";
import { inWhole } from "../../../support/whole.ts";

const RUNS = inWhole(60, 30);
const STEPS = 400;
const SESSIONS = 3;
const TUBES = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"] as const;
const ORDERS = [ReserveOrder.Strict, ReserveOrder.Weighted, ReserveOrder.WeightedTime] as const;
const GROUPS = ["", "", "x", "y", "z"] as const;

const LIMITS: readonly [Partial<SettingValues>, ...Partial<SettingValues>[]] = [
  {},
  { maxReserved: 1 },
  { maxReserved: 3 },
  { groupMaxReserved: 1 },
  { rate: "1/1" },
  { backoffMs: 500 },
];

interface Put {
  readonly id: number;
  readonly tube: string;
  readonly pri: number;
  readonly delaySeconds: number;
  readonly group: string;
  readonly weight: number;
  readonly expiresAtMs: number;
}

function put(
  engine: Engine,
  { id, tube, pri, delaySeconds, group, weight, expiresAtMs }: Put,
  nowMs: number,
): void {
  const attributes = new JobAttributes();
  if (group !== "") {
    attributes.fixed.text(Attribute.Group, asciiBytes(group), 0, group.length);
    attributes.fixed.uint16(Attribute.Weight, weight);
  }
  attributes.expiresAtMs = expiresAtMs;
  const job = { id, pri, delaySeconds, delayMillis: 0, ttrSeconds: 2, bodyBytes: 0, atMs: nowMs };
  const isPlain = group === "" && expiresAtMs === 0;
  const outcome = engine.put(
    engine.session(0),
    job,
    EMPTY_BODY,
    nowMs,
    tube,
    isPlain ? undefined : attributes,
  );
  assert.equal(outcome, Outcome.Done);
}

const idOf = (engine: Engine, slot: number): number =>
  slot === NO_SLOT ? 0 : engine.jobs.pageOf(slot).id[rowOf(slot)]!;

/** Makes one drawn change in each engine; returns the values to compare. */
type Change = (engine: Engine, nowMs: number) => unknown;

class Draw {
  readonly #random: SeededRandom;
  readonly #orders: readonly [ReserveOrder, ...ReserveOrder[]];
  #lastId = 0;

  constructor(random: SeededRandom, orders: readonly [ReserveOrder, ...ReserveOrder[]] = ORDERS) {
    this.#random = random;
    this.#orders = orders;
  }

  next(nowMs: number): Change {
    const random = this.#random;
    const tube = random.pick(TUBES);
    const index = random.between(0, SESSIONS - 1);
    const id = random.between(1, Math.max(1, this.#lastId));
    const pri = random.between(0, 3);
    const limits = { jobsMax: random.between(1, 6), bytesMax: 1000 };
    const kind = random.between(0, 20);
    if (kind <= 4) {
      const job: Put = {
        id: ++this.#lastId,
        tube,
        pri,
        delaySeconds: random.chance(0.2) ? 1 : 0,
        group: random.pick(GROUPS),
        weight: random.between(1, 3),
        expiresAtMs: random.chance(0.4) ? nowMs + random.between(1, 1500) : 0,
      };
      return (engine) => put(engine, job, nowMs);
    }
    if (kind === 5) return (engine) => engine.watch(engine.session(index), tube);
    if (kind === 6 && tube !== TUBES[0]) return (engine) => engine.ignore(engine.session(index), tube);
    if (kind === 7) return (engine) => engine.delete(engine.session(index), id, nowMs);
    if (kind === 8) return (engine) => engine.release(engine.session(index), id, pri, 0, nowMs);
    if (kind === 9) return (engine) => engine.bury(engine.session(index), id, pri, nowMs);
    if (kind === 10) return (engine) => engine.kickJob(id, nowMs);
    if (kind === 11) {
      const seconds = random.between(0, 1);
      return (engine) => engine.pause(tube, seconds, nowMs);
    }
    if (kind === 12) {
      const change = { pri, ttrSeconds: undefined, delayMs: undefined };
      return (engine) => engine.changes.update(engine.session(index), id, change, nowMs);
    }
    if (kind === 13) {
      const values = random.pick(LIMITS);
      const pattern = random.chance(0.5) ? "t*" : tube;
      return (engine) => setTubes(engine, pattern, values, nowMs);
    }
    if (kind === 14) return (engine) => engine.reserveJob(engine.session(index), id, nowMs);
    if (kind === 15)
      return (engine) => {
        const slots: number[] = [];
        const session = engine.session(index);
        const places = session.turns?.decides === true ? [] : undefined;
        const isCut = engine.batchReserves.list(session, limits, nowMs, slots, places);
        return [isCut, places, ...slots.map((slot) => idOf(engine, slot))];
      };
    if (kind === 16)
      return (engine) => {
        const slots: number[] = [];
        engine.batchReserves.reserve(engine.session(index), limits, 0, nowMs, slots);
        return slots.map((slot) => idOf(engine, slot));
      };
    if (kind === 17) {
      const weight = random.between(1, 5);
      return (engine) => {
        const session = engine.session(index);
        engine.watch(session, tube);
        engine.weigh(session, tube, weight, nowMs);
      };
    }
    if (kind === 18) {
      if (random.chance(0.9)) {
        const by = random.between(0, 5000);
        return (engine) =>
          engine.raiseFloor(engine.session(index), (engine.session(index).turns?.floor ?? 0) + by);
      }
      const order = random.pick(this.#orders);
      return (engine) => engine.setOrder(engine.session(index), order, nowMs);
    }
    return (engine) => {
      const slot = engine.reserve(engine.session(index), 0, nowMs);
      return slot < 0 ? slot : idOf(engine, slot);
    };
  }
}

/** As deepEqual, which takes half of the test's time. */
function expectSame(ours: readonly unknown[], theirs: readonly unknown[], where: () => string): void {
  if (!ours.every((value, at) => Object.is(value, theirs[at]))) assert.deepEqual(ours, theirs, where());
}

describe("the order of a session's ready tubes", () => {
  it("matches a look at each tube", (t) => {
    printSeed(t);
    for (let run = 0; run < RUNS; run++) {
      const random = new SeededRandom(seed + run);
      const turnDueMax = random.pick([1, 1000]);
      const make = (orderedTubesMin: number): Engine =>
        new Engine({ effects: unheardEffects(), ownsDefaultTube: true, orderedTubesMin, turnDueMax });
      const ordered = make(random.pick([0, 0, 3]));
      const naive = make(Number.POSITIVE_INFINITY);
      const draw = new Draw(random);
      let nowMs = 1000;
      for (let index = 0; index < SESSIONS; index++) {
        const order = random.pick(ORDERS);
        for (const engine of [ordered, naive]) engine.setOrder(engine.session(index), order, nowMs);
      }
      for (let step = 0; step < STEPS; step++) {
        if (random.chance(0.2)) nowMs += random.chance(0.2) ? 3000 : random.between(1, 400);
        const change = draw.next(nowMs);
        const told = [ordered, naive].map((engine) => {
          engine.beginTurn();
          return change(engine, nowMs);
        });
        assert.deepEqual(told[0], told[1], `run ${run}, step ${step}`);
        for (let index = 0; index < SESSIONS; index++) {
          const best = [ordered, naive].map((engine) => {
            const session = engine.session(index);
            const id = idOf(engine, engine.bestReady(session, nowMs));
            const { floor, place, earliest } = session.turns ?? {};
            return [id, floor, place, earliest];
          });
          expectSame(best[0]!, best[1]!, () => `run ${run}, step ${step}, session ${index}`);
        }
      }
    }
  });

  it("finds the same jobs after a preparation in steps, whatever happens between them", (t) => {
    printSeed(t);
    for (let run = 0; run < RUNS; run++) {
      const random = new SeededRandom(seed + run);
      const make = (orderedTubesMin: number): Engine =>
        new Engine({ effects: unheardEffects(), ownsDefaultTube: true, orderedTubesMin });
      const [ordered, naive] = [make(0), make(Number.POSITIVE_INFINITY)];
      // By weight, a tube that the preparation looks at has begun its turns then.
      const draw = new Draw(random, [ReserveOrder.Strict]);
      let nowMs = 1000;
      for (let step = 0; step < STEPS; step++) {
        if (random.chance(0.2)) nowMs += random.between(1, 400);
        const change = draw.next(nowMs);
        const told = [ordered, naive].map((engine) => change(engine, nowMs));
        assert.deepEqual(told[0], told[1], `run ${run}, step ${step}`);
        const index = random.below(SESSIONS);
        naive.runDue(nowMs);
        const mayChoose = ordered.prepareOrder(ordered.session(index), 1, nowMs);
        assert.equal(mayChoose, !ordered.needsOrder(ordered.session(index)));
        if (!mayChoose && random.chance(0.8)) continue;
        const ids = [ordered, naive].map((engine) =>
          idOf(engine, engine.bestReady(engine.session(index), nowMs)),
        );
        assert.equal(ids[0], ids[1], `run ${run}, step ${step}, session ${index}`);
      }
    }
  });

  it("prepares 20,000 ready tubes in steps, while others put and take", () => {
    const tubes = 20_000;
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const [client, other] = [engine.session(0), engine.session(1)];
    const plain = { pri: 5, delaySeconds: 0, group: "", weight: 1, expiresAtMs: 0 };
    for (let id = 1; id <= tubes; id++) {
      engine.watch(client, `q${id}`);
      put(engine, { ...plain, id, tube: `q${id}` }, 0);
    }
    assert.ok(engine.needsOrder(client));
    let isPrepared = false;
    for (let n = 0; !isPrepared; n++) {
      assert.ok(n < 300);
      engine.reserveJob(other, n + 1, 0);
      put(engine, { ...plain, id: tubes + 1 + n, tube: `q${n * 7 + 1}`, pri: 4 }, 0);
      engine.looks = 0;
      isPrepared = engine.prepareOrder(client, 100, 0);
      assert.ok(engine.looks <= 102, `${engine.looks} looks`);
    }
    assert.ok(!engine.needsOrder(client));
    engine.looks = 0;
    const slot = engine.reserve(client, 0, 0);
    assert.equal(idOf(engine, slot), tubes + 1);
    assert.ok(engine.looks < 20, `${engine.looks} looks`);
  });

  it("prepares the ready tubes alone of a session that watches many more", () => {
    const [tubes, watched] = [3000, 30_000];
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const [client, other] = [engine.session(0), engine.session(1)];
    const plain = { pri: 5, delaySeconds: 0, group: "", weight: 1, expiresAtMs: 0 };
    for (let n = 1; n <= watched; n++) engine.watch(client, `q${n}`);
    for (let id = 1; id <= tubes; id++) put(engine, { ...plain, id, tube: `q${id}` }, 0);
    // One that the client doesn't watch has the best job.
    put(engine, { ...plain, id: tubes + 1, tube: "other", pri: 0 }, 0);
    engine.looks = 0;
    for (let n = 0; !engine.prepareOrder(client, 100, 0); n++) {
      // The last tube takes the place of one that leaves.
      engine.reserveJob(other, n + 1, 0);
      put(engine, { ...plain, id: tubes + 2 + n, tube: `q${watched - n}` }, 0);
    }
    assert.ok(engine.looks < 2 * tubes, `${engine.looks} looks`);
    const [seen, left] = [new Set<number>(), engine.jobCounts[JobState.Ready]! - 1];
    for (let slot = 0; slot >= 0; ) {
      slot = engine.reserve(client, 0, 0);
      if (slot >= 0) seen.add(idOf(engine, slot));
    }
    assert.equal(seen.size, left);
    assert.ok(!seen.has(tubes + 1));
  });

  it("prepares an order at once whose steps come too late for what others do", () => {
    const tubes = 20_000;
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const client = engine.session(0);
    const plain = { pri: 5, delaySeconds: 0, group: "", weight: 1, expiresAtMs: 0 };
    let id = 0;
    const putAll = (pri: number): void => {
      for (let tube = 0; tube < tubes; tube++) put(engine, { ...plain, id: ++id, tube: `q${tube}`, pri }, 0);
    };
    for (let tube = 0; tube < tubes; tube++) engine.watch(client, `q${tube}`);
    putAll(9);
    assert.ok(!engine.prepareOrder(client, 100, 0));
    putAll(8);
    assert.ok(!engine.prepareOrder(client, 100, 0));
    putAll(7);
    assert.ok(engine.prepareOrder(client, 100, 0));
    assert.equal(idOf(engine, engine.reserve(client, 0, 0)), 2 * tubes + 1);
  });

  it("looks at few of 20,000 ready tubes per reserve after the first, also while others put and take", () => {
    const tubes = 20_000;
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const [client, other] = [engine.session(0), engine.session(1)];
    const plain = { pri: 5, delaySeconds: 0, group: "", weight: 1, expiresAtMs: 0 };
    for (let id = 1; id <= tubes; id++) {
      engine.watch(client, `q${id}`);
      put(engine, { ...plain, id, tube: `q${id}` }, 0);
    }
    const looksOf = (act: () => void): number => {
      engine.looks = 0;
      act();
      return engine.looks;
    };
    const reserve = (): void => assert.ok(engine.reserve(client, 0, 0) >= 0);
    assert.ok(looksOf(reserve) <= tubes + 1);
    for (let n = 0; n < 200; n++) {
      put(engine, { ...plain, id: tubes + 1 + n, tube: `q${n * 7 + 1}`, pri: 4 }, 0);
      engine.reserveJob(other, tubes - n, 0);
      engine.watch(client, `later${n}`);
      engine.ignore(client, `q${n + 10_000}`);
      const looks = looksOf(reserve);
      assert.ok(looks < 20, `reserve ${n} looked at ${looks} tubes`);
    }
  });

  for (const order of [ReserveOrder.Weighted, ReserveOrder.WeightedTime])
    it(`looks at few of 20,000 ready tubes in order ${order}: reserves, batches and lists`, () => {
      const tubes = 20_000;
      const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
      const client = engine.session(0);
      const plain = { pri: 5, delaySeconds: 0, group: "", weight: 1, expiresAtMs: 0 };
      for (let id = 1; id <= 2 * tubes; id++) {
        engine.watch(client, `q${id % tubes}`);
        put(engine, { ...plain, id, tube: `q${id % tubes}` }, 0);
      }
      for (let tube = 0; tube < tubes; tube++) engine.weigh(client, `q${tube}`, 1 + (tube % 7), 0);
      engine.setOrder(client, order, 0);
      const ids: number[] = [];
      const limits = { jobsMax: 3, bytesMax: 1000 };
      assert.ok(engine.bestReady(client, 0) >= 0);
      for (let n = 0; n < 300; n++) {
        put(engine, { ...plain, id: 3 * tubes + n, tube: `q${n * 7}`, pri: 4 }, n);
        engine.looks = 0;
        const slots: number[] = [];
        engine.batchReserves.reserve(client, limits, 0, n, slots);
        slots.push(engine.reserve(client, 0, n));
        engine.batchReserves.list(client, limits, n, [], []);
        ids.push(...slots.map((slot) => idOf(engine, slot)));
        // By time, each choice looks at the tubes of held jobs.
        assert.ok(engine.looks < 8 * 4 * (ids.length + 20), `step ${n}: ${engine.looks} looks`);
        if (n % 10 > 0) for (const id of ids.splice(0)) engine.delete(client, id, n);
      }
    });

  it("looks at a bounded number of tubes whose jobs are held, and misses no job", () => {
    const tubes = 3 * HELD_LOOKS_MAX;
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const client = engine.session(0);
    const plain = { pri: 5, delaySeconds: 0, group: "", weight: 1, expiresAtMs: 0 };
    for (let tube = 0; tube < tubes; tube++) engine.watch(client, `q${tube}`);
    engine.setOrder(client, ReserveOrder.WeightedTime, 0);
    let id = 0;
    // The tubes of these jobs are looked at in each choice from now on.
    for (let tube = 0; tube < tubes; tube++) put(engine, { ...plain, id: ++id, tube: `q${tube}` }, 0);
    for (let n = 0; n < tubes; n++) assert.ok(engine.reserve(client, 0, 1) >= 0);
    for (let tube = 0; tube < tubes; tube++) put(engine, { ...plain, id: ++id, tube: `q${tube}` }, 1);
    for (let n = 0; n < tubes; n++) {
      engine.looks = 0;
      const slots: number[] = [];
      engine.batchReserves.list(client, { jobsMax: 1, bytesMax: 0 }, 2, slots, []);
      assert.equal(slots.length, 1);
      assert.ok(engine.reserve(client, 0, 2) >= 0, `${n} of ${tubes} jobs`);
      if (n > 0) assert.ok(engine.looks < 15 * HELD_LOOKS_MAX, `${engine.looks} looks`);
    }
    assert.ok(engine.reserve(client, 0, 2) < 0);
  });

  it("lets a tube that is watched again begin at the floor, whatever its held jobs have taken", () => {
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const client = engine.session(0);
    const plain = { pri: 5, delaySeconds: 0, group: "", weight: 1, expiresAtMs: 0, tube: "t" };
    engine.watch(client, "t");
    engine.setOrder(client, ReserveOrder.WeightedTime, 0);
    for (const id of [1, 2]) put(engine, { ...plain, id }, 0);
    assert.ok(engine.reserve(client, 0, 0) >= 0);
    engine.ignore(client, "t");
    engine.watch(client, "t");
    assert.equal(idOf(engine, engine.bestReady(client, 1000)), 2);
    assert.equal(client.turns!.earliest, client.turns!.floor);
  });

  it("keeps nothing for tubes that a session has ignored", () => {
    const tubes = 200;
    const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
    const client = engine.session(0);
    const plain = { pri: 5, delaySeconds: 0, group: "", weight: 1, expiresAtMs: 0 };
    for (let id = 1; id <= tubes; id++) {
      engine.watch(client, `q${id}`);
      put(engine, { ...plain, id, tube: `q${id}` }, 0);
    }
    assert.equal(idOf(engine, engine.bestReady(client, 0)), 1);
    const order = client.order!;
    assert.equal(order.size, tubes);
    for (let n = 0; n < 10_000; n++) {
      engine.ignore(client, "q7");
      engine.watch(client, "q7");
      assert.ok(order.size <= 2 * tubes + 64, `${order.size} entries`);
    }
    assert.equal(idOf(engine, engine.bestReady(client, 0)), 1);
    assert.equal(order.size, tubes);
    for (let id = 1; id <= tubes - 10; id++) engine.ignore(client, `q${id}`);
    assert.ok(order.size <= 2 * 10 + 64, `${order.size} entries`);
    assert.equal(idOf(engine, engine.bestReady(client, 0)), tubes - 9);
  });
});
