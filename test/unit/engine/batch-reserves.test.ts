// Tests of batches: a shard lists the jobs that as many reserves would give, in the same order,
// whether the session scans its tubes or keeps them in an order.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { NewJob } from "../../../src/engine/jobs/new-job.ts";
import { ReserveOrder } from "../../../src/protocol/request.ts";
import type { SettingValues } from "../../../src/schema/setting.ts";
import { TracedEngine } from "./traced-engine.ts";

interface Case {
  readonly name: string;
  readonly jobs: readonly (Partial<NewJob> & { readonly tube: string; readonly group?: string })[];
  readonly before?: (traced: TracedEngine) => void;
  readonly settings?: Partial<SettingValues>;
  readonly weights?: Readonly<Record<string, number>>;
  readonly order?: ReserveOrder;
  readonly limits?: { readonly jobsMax?: number; readonly bytesMax?: number; readonly oneGroup?: true };
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
  { name: "jobs of one group", limits: { oneGroup: true }, jobs: [{ tube: "a", group: "x" }, { tube: "a", group: "y" }, { tube: "a", group: "x" }, { tube: "b" }], listed: [1], taken: [1, 3], isCut: true },
  { name: "jobs without a group", limits: { oneGroup: true }, jobs: [{ tube: "a" }, { tube: "a", group: "x" }, { tube: "b" }, { tube: "a" }], listed: [1], taken: [1, 4], isCut: true },
  { name: "jobs of one tube without groups", limits: { oneGroup: true }, jobs: [{ tube: "b", pri: 1 }, { tube: "a", pri: 2 }, { tube: "b", pri: 3 }], listed: [1, 2, 3], taken: [1, 3] },
  { name: "no more of one group than its limit allows", limits: { oneGroup: true }, settings: { groupMaxReserved: 2 }, jobs: [{ tube: "a", group: "x" }, { tube: "a", group: "x" }, { tube: "a", group: "x" }, { tube: "a", group: "y" }], listed: [1], taken: [1, 2], isCut: true },
  { name: "one group, and no job that a worker lost", limits: { oneGroup: true }, jobs: of("a", 3), before: lose, listed: [1, 2], taken: [1] },
  { name: "by weight, jobs of one tube", order: ReserveOrder.Weighted, limits: { oneGroup: true }, jobs: [...of("a", 2), ...of("b", 2)], listed: [1, 3, 2, 4], taken: [1, 2], places: [2520, 2520, 7560, 7560] },
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

      if (limits?.oneGroup === true)
        it(`has ${name}, from the listed one on, unless that is gone`, () => {
          const bench = traced(each, orderedTubesMin);
          const { engine, nowMs } = bench;
          const slot = engine.find(taken[0]!);
          const page = engine.jobs.pageOf(slot);
          const [pri, bodyBytes] = [page.pri[rowOf(slot)]!, page.bodyBytes[rowOf(slot)]!];
          for (const expected of [taken, []]) {
            const slots: number[] = [];
            const first = { id: taken[0]!, pri, bodyBytes };
            engine.batchReserves.takeGroup(engine.session(0), first, all, nowMs, slots);
            assert.deepEqual(bench.ids(slots), expected);
          }
          bench.take();
        });
    }
  });
