// Tests of a shard's part in a batch over several: a listed job that may not be given any more
// stays.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Engine, Outcome } from "../../../src/engine/engine.ts";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import { NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { JobAttributes, type NewJob } from "../../../src/engine/jobs/new-job.ts";
import { OnDuplicate } from "../../../src/protocol/option-rows.ts";
import { ReserveOrder } from "../../../src/protocol/request.ts";
import type { SettingValues } from "../../../src/schema/setting.ts";
import { unheardEffects } from "../../support/in-process/effects.ts";
import { SeededRandom } from "../../support/seeded-random.ts";
import { TracedEngine } from "./traced-engine.ts";

const JOBS = 3;

/**
 * Jobs 1 to 3 of tube `a`, listed for a client; what `meanwhile` does; and which of them the client
 * gets then.
 */
function taken(
  meanwhile: (traced: TracedEngine, engine: Engine) => unknown,
  groups: readonly string[] = [],
): number[] {
  const traced = new TracedEngine();
  const { engine } = traced;
  const client = traced.session(0, "a");
  for (let id = 1; id <= JOBS; id++)
    traced.put(id, { tube: "a", group: groups[id - 1] ?? "" }, { leaving: false });
  const listed: number[] = [];
  engine.batchReserves.list(client, { jobsMax: JOBS, bytesMax: 1000 }, 0, listed);
  const ids = traced.ids(listed);
  assert.deepEqual(ids, groups.length === 0 ? [1, 2, 3] : [1]);
  meanwhile(traced, engine);
  const slots: number[] = [];
  const jobs = ids.map((id) => ({ id, pri: 0, bodyBytes: 0 }));
  const count = engine.batchReserves.take(client, jobs, false, 0, slots);
  assert.equal(slots.length, ids.length);
  const got = traced.ids(slots.filter((slot) => slot !== NO_SLOT));
  assert.equal(count, got.length);
  return got;
}

describe("a part of a batch", () => {
  it("contains everything listed if nothing has happened", () =>
    assert.deepEqual(
      taken(() => {}),
      [1, 2, 3],
    ));

  it("respects a rate or concurrency limit reached meanwhile", () => {
    assert.deepEqual(
      taken((traced) => traced.set("a", { maxReserved: 2 })),
      [1, 2],
    );
    const closed = (traced: TracedEngine): void => {
      traced.set("a", { maxReserved: 1 });
      traced.hold(2, traced.session(1));
    };
    assert.deepEqual(taken(closed), []);
    assert.deepEqual(
      taken((traced) => traced.set("a", { rate: "1/60" })),
      [1],
    );
  });

  it("contains no job whose priority changed meanwhile", () => {
    const change = { pri: 7, ttrSeconds: undefined, delayMs: undefined };
    assert.deepEqual(
      taken((_, engine) => engine.changes.update(engine.session(1), 2, change, 0)),
      [1, 3],
    );
    const releases = (traced: TracedEngine): void => {
      traced.hold(2, traced.session(1));
      traced.engine.release(traced.session(1), 2, 7, 0, 0);
    };
    assert.deepEqual(taken(releases), [1, 3]);
  });

  it("contains no job with a larger body than was listed", () => {
    const replaces = ({ engine }: TracedEngine, bodyBytes: number): void => {
      const attributes = new JobAttributes().clear();
      attributes.setKey(Buffer.from("k"), 0, 1, false);
      attributes.onDuplicate = OnDuplicate.Replace;
      const job = { id: 9, pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes, atMs: 0 };
      const body = bodyBytes === 0 ? EMPTY_BODY : engine.bodies.allocate(bodyBytes);
      assert.equal(engine.changes.putAgain(2, job, body, attributes, 0), Outcome.Replaced);
    };
    assert.deepEqual(
      taken((traced) => replaces(traced, 1)),
      [1, 3],
    );
    assert.deepEqual(
      taken((traced) => replaces(traced, 0)),
      [1, 2, 3],
    );
  });

  it("contains no job that a worker lost meanwhile, unless it is the whole batch", () => {
    const loses = (traced: TracedEngine): void => {
      traced.hold(2, traced.session(1));
      traced.engine.timeOutNow(2, 0);
    };
    assert.deepEqual(taken(loses), [1, 3]);
  });

  it("respects pauses, and contains no job taken meanwhile", () => {
    assert.deepEqual(
      taken((_, engine) => engine.pause("a", 5, 0)),
      [],
    );
    assert.deepEqual(
      taken((traced) => traced.hold(2, traced.session(1))),
      [1, 3],
    );
  });

  it("contains no job of a group whose turn has passed", () => {
    assert.deepEqual(
      taken(() => {}, ["x", "x", "y"]),
      [1],
    );
    assert.deepEqual(
      taken((traced) => traced.hold(2, traced.session(1)), ["x", "x", "y"]),
      [],
    );
  });
});

// Tests of the order of a batch over many tubes of a shard: the best job of all comes first.

describe("batch order", () => {
  /** Few tubes are looked at one by one, many are kept in order. */
  const TUBES = [2, 7, 12, 40] as const;
  const JOBS = 300;

  it("a batch over many tubes is in the order of priority and id", () => {
    for (let seed = 1; seed <= 12; seed++) {
      const tubes = TUBES[seed % TUBES.length]!;
      const random = new SeededRandom(seed);
      const engine = new Engine({ effects: unheardEffects(), ownsDefaultTube: true });
      const client = engine.session(0);
      for (let tube = 0; tube < tubes; tube++) engine.watch(client, `t${tube}`);
      const jobs: { id: number; pri: number }[] = [];
      for (let id = 1; id <= JOBS; id++) {
        const pri = random.below(40);
        jobs.push({ id, pri });
        const job = { id, pri, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, bodyBytes: 0, atMs: 0 };
        const outcome = engine.put(client, job, EMPTY_BODY, 0, `t${random.below(tubes)}`, undefined);
        assert.equal(outcome, Outcome.Done);
      }
      const expected = jobs.toSorted((a, b) => a.pri - b.pri || a.id - b.id).map(({ id }) => id);
      const limits = { jobsMax: JOBS, bytesMax: 1_000_000 };
      const [listed, reserved]: number[][] = [[], []];
      engine.batchReserves.list(client, limits, 0, listed!);
      assert.equal(engine.batchReserves.reserve(client, limits, 0, 0, reserved!), JOBS);
      for (const slots of [listed!, reserved!]) {
        const ids = slots.map((slot) => engine.jobs.pageOf(slot).id[rowOf(slot)]!);
        assert.deepEqual(ids, expected, `seed ${seed}, ${tubes} tubes`);
      }
    }
  });
});

// Tests of batches: a shard lists the jobs that as many reserves would give, in the same order,
// whether the session scans its tubes or keeps them in an order.

interface Case {
  readonly name: string;
  readonly jobs: readonly (Partial<NewJob> & { readonly tube: string; readonly group?: string })[];
  readonly before?: (traced: TracedEngine) => void;
  readonly settings?: Partial<SettingValues>;
  readonly weights?: Readonly<Record<string, number>>;
  readonly order?: ReserveOrder;
  readonly limits?: { readonly jobsMax?: number; readonly bytesMax?: number };
  /** Ids of the jobs that are listed. */
  readonly listed: readonly number[];
  /** Those of a batch on this shard alone, if they are others. */
  readonly taken?: readonly number[];
  /** Whether there may be more. */
  readonly isCut?: true;
  readonly places?: readonly number[];
}

const of = (tube: string, count: number): Case["jobs"] => Array.from({ length: count }, () => ({ tube }));
const lose = (traced: TracedEngine): void => {
  traced.hold(2);
  traced.does((engine, nowMs) => engine.timeOutNow(2, nowMs));
};

// biome-ignore format: a table
const CASES: readonly Case[] = [
  { name: "the best of two tubes", jobs: [{ tube: "a", pri: 3 }, { tube: "b", pri: 2 }, { tube: "a", pri: 1 }, { tube: "b", pri: 4 }], listed: [3, 2, 1, 4] },
  { name: "no more than its limit", jobs: [...of("a", 2), ...of("b", 2)], limits: { jobsMax: 3 }, listed: [1, 2, 3] },
  { name: "the job that is too big for it, last", jobs: [{ tube: "a", bodyBytes: 6 }, { tube: "b", bodyBytes: 4 }, { tube: "b", bodyBytes: 1 }, { tube: "a" }], limits: { bytesMax: 10 }, listed: [1, 2, 3], taken: [1, 2] },
  { name: "a first job that is too big, alone", jobs: [{ tube: "a", bodyBytes: 16 }, { tube: "b" }], limits: { bytesMax: 10 }, listed: [1] },
  { name: "a job that a worker lost, last", jobs: [...of("a", 2), ...of("b", 1)], before: lose, listed: [1, 2], taken: [1] },
  { name: "a first job that a worker lost, alone", jobs: [{ tube: "a" }, { tube: "a" }, { tube: "b", pri: 1 }], before: (traced) => { lose(traced); traced.does((engine, nowMs) => engine.delete(engine.session(0), 1, nowMs)); }, listed: [2] },
  { name: "as many as a limit allows", jobs: [...of("a", 3), ...of("b", 2)], settings: { maxReserved: 2 }, listed: [1, 2, 4, 5] },
  { name: "no more than may be decided if groups take turns", jobs: [{ tube: "a", group: "x" }, { tube: "a", group: "x" }, { tube: "a", group: "y" }, { tube: "b" }], listed: [1], taken: [1, 3, 2, 4], isCut: true },
  { name: "nothing of a paused tube", jobs: [...of("a", 1), ...of("b", 1)], before: (traced) => void traced.engine.pause("a", 5, 0), listed: [2] },
  { name: "by weight", order: ReserveOrder.Weighted, weights: { a: 2, b: 1 }, jobs: [...of("a", 4), ...of("b", 4)], listed: [1, 5, 2, 3, 6, 4, 7, 8], places: [1260, 2520, 3780, 6300, 7560, 8820, 12600, 17640] },
  { name: "by weight, no more than its limit", order: ReserveOrder.Weighted, weights: { a: 2 }, jobs: [...of("a", 4), ...of("b", 4)], limits: { jobsMax: 3 }, listed: [1, 5, 2], places: [1260, 2520, 3780] },
  { name: "by weight, a job that a worker lost, last", order: ReserveOrder.Weighted, jobs: [...of("a", 2), ...of("b", 2)], before: lose, listed: [3, 1, 4, 2], taken: [3, 1, 4], places: [2520, 7560, 7560, 12600] },
  { name: "by weight, the job that is too big for it, last", order: ReserveOrder.Weighted, jobs: [{ tube: "a", bodyBytes: 6 }, { tube: "b", bodyBytes: 5 }, { tube: "b", bodyBytes: 1 }, { tube: "a" }], limits: { bytesMax: 10 }, listed: [1, 2], taken: [1], places: [2520, 2520] },
  { name: "by weight, as many as a limit allows", order: ReserveOrder.Weighted, jobs: [...of("a", 3), ...of("b", 2)], settings: { maxReserved: 2 }, listed: [1, 4, 2, 5], places: [2520, 2520, 7560, 7560] },
  { name: "by weight, none of a tube at its limit", order: ReserveOrder.Weighted, jobs: [...of("a", 3), ...of("b", 2)], settings: { maxReserved: 1 }, before: (traced) => void traced.hold(1, traced.session(1)), listed: [4, 5], places: [2520, 7560] },
  { name: "by weight, no more than may be decided if groups take turns", order: ReserveOrder.Weighted, jobs: [{ tube: "a", group: "x" }, { tube: "a", group: "y" }, { tube: "b" }], listed: [1], taken: [1, 3, 2], isCut: true, places: [2520] },
  { name: "by time", order: ReserveOrder.WeightedTime, weights: { a: 3 }, jobs: [...of("a", 4), ...of("b", 4)], listed: [1, 5, 2, 3, 4, 6, 7, 8], places: [0, 0, 333, 666, 1001, 1001, 2002, 3003] },
  { name: "by time, after what is held", order: ReserveOrder.WeightedTime, jobs: [...of("a", 3), ...of("b", 3)], before: (traced) => { traced.hold(1); traced.wait(4); }, listed: [4, 5, 6, 2, 3], places: [0, 1001, 2002, 4001, 4002] },
];

function traced(each: Case, orderedTubesMin: number): TracedEngine {
  const engine = new TracedEngine({ orderedTubesMin });
  const session = engine.session(0, "a", "b");
  if (each.settings !== undefined) engine.set("a", each.settings);
  each.jobs.forEach((job, index) => void engine.put(index + 1, job));
  for (const [tube, weight] of Object.entries(each.weights ?? {}))
    engine.engine.weigh(session, tube, weight, 0);
  if (each.order !== undefined) engine.engine.setOrder(session, each.order, 0);
  each.before?.(engine);
  return engine;
}

for (const [how, orderedTubesMin] of [
  ["scans its tubes", 64],
  ["keeps its tubes in an order", 0],
] as const)
  describe(`a batch of a session that ${how}`, () => {
    for (const each of CASES) {
      const { name, limits, order, listed, taken = listed, places, isCut = false } = each;
      const all = { jobsMax: 10, bytesMax: 1000, ...limits };
      it(`lists ${name}`, () => {
        const { engine, nowMs, ids } = traced(each, orderedTubesMin);
        const slots: number[] = [];
        const placed: number[] | undefined = order === undefined ? undefined : [];
        const cut = engine.batchReserves.list(engine.session(0), all, nowMs, slots, placed);
        assert.deepEqual([ids(slots), cut, placed], [listed, isCut, places]);
      });

      it(`has ${name}`, () => {
        const bench = traced(each, orderedTubesMin);
        const { engine, nowMs } = bench;
        const slots: number[] = [];
        engine.batchReserves.reserve(engine.session(0), all, 0, nowMs, slots);
        assert.deepEqual(bench.ids(slots), taken);
        bench.take();
      });
    }
  });
