// Catalogue of all cases by name: those of a default run, a quick run and a full run.
import { availableParallelism } from "node:os";
import { WORKLOAD_DEFAULTS, type Workload } from "../load/workload.ts";
import { backlogCase } from "./backlog-case.ts";
import { batchCase } from "./batch-case.ts";
import type { BenchCase } from "./bench-case.ts";
import { bulkCase } from "./bulk-case.ts";
import { busyCase } from "./busy-case.ts";
import { type LoadCaseExtras, loadCase } from "./load-case.ts";
import { membersCase } from "./members-case.ts";
import { memoryCase } from "./memory-case.ts";
import { schedulesCase } from "./schedules-case.ts";
import { standingCase } from "./standing-case.ts";
import { startCase } from "./start-case.ts";
import { p99At80Case, sweepCase } from "./sweep-case.ts";
import { threadsCase } from "./threads-case.ts";
import { uniqueCase } from "./unique-case.ts";

/** Length of a turn, before a case changes anything else. */
export type Timing = Pick<Workload, "seconds" | "warmupSeconds">;

/** A p99.9 needs a great many replies, and a pause of the whole process some time to come. */
const STANDING_SECONDS = 60;

const PUT = { scenario: "put" } as const;
const PRODUCERS_CONSUMERS = { scenario: "producers-consumers" } as const;
const MANY_WATCHERS = { scenario: "tubes", tubes: 1500, watchers: 300, connections: 10 } as const;

export function defaultCases(timing: Timing): BenchCase[] {
  const of = withTiming(timing);
  return [
    of({}),
    of({ connections: 1 }),
    of({ connections: 500 }),
    of({ ...PUT, pipeline: 16 }),
    of({ ...PUT, pipeline: 64 }),
    of({ ...PRODUCERS_CONSUMERS, connections: 100, pipeline: 16 }),
    // 1500 take beanstalkd ten seconds to be watched, each turn
    of({ ...MANY_WATCHERS, tubes: 200 }),
    of({}, { fsync: "0" }),
    memoryCase(200_000),
    sweepCase({ ...WORKLOAD_DEFAULTS, ...timing, connections: 50, pipeline: 4 }),
  ];
}

export function quickCases(timing: Timing): BenchCase[] {
  const of = withTiming(timing);
  return [
    of({}),
    of({ ...PUT, pipeline: 16 }),
    of({ ...PRODUCERS_CONSUMERS, connections: 100, pipeline: 16 }),
  ];
}

/**
 * The rows of the table in docs/figures.md; some of them are the README's (bench/readme-table.ts).
 * A goal is what two cores and default flags must reach.
 */
export function readmeCases(timing: Timing): BenchCase[] {
  const of = withTiming(timing);
  return [
    of({}, goal([1.25, 0.95], [1.5, 1.05])),
    busyCase(of({}, goal([1.1, 0.8], [1.3, 1]))),
    of({ connections: 500 }, goal([1.25, 0.95], [1.4, 1.05])),
    of({ connections: 500, tubes: 200 }),
    of({ connections: 1 }, goal([1.2, 1.1], [1.5, 1.3])),
    of(PUT, goal([1.2, 0.95], [1.4, 1.05])),
    of({ ...PUT, pipeline: 16 }, goal([5], [8])),
    of({ ...PUT, pipeline: 64 }, goal([7], [12])),
    of({ ...PRODUCERS_CONSUMERS, connections: 100, pipeline: 16 }, goal([5], [9])),
    of({ bodyBytes: 2 ** 16 }, goal([1, 0.8], [1.2, 1])),
    of({ bodyBytes: 2 ** 20, connections: 10 }, goal([1], [1])),
    of(MANY_WATCHERS),
    of({}, { fsync: "50", ...goal([1.1], [1.4]) }),
    of({}, { fsync: "0", ...goal([6], [8]) }),
    of(PUT, { fsync: "0", ...goal([8], [10]) }),
    of({ ...PUT, pipeline: 64 }, { fsync: "0", ...goal([60], [80]) }),
    of({ ...PUT, connections: 1 }, { fsync: "0", ...goal([0.9], [1]) }),
    ...everydayCases(timing),
  ];
}

/** What users meet and a generator that sends in bursts to a warm server does not. */
export function everydayCases(timing: Timing): BenchCase[] {
  const of = withTiming(timing);
  const overloaded = 8 * availableParallelism();
  return [
    of({ processes: 50 }, goal([1, 0.9], [1.2, 1.05])),
    of({ ...PUT, processes: 50 }, goal([1.1, 0.85], [1.3, 1.05])),
    of({ connections: 8, processes: 8 }, goal([1.1, 0.9], [1.3, 1.05])),
    of({}, { isFresh: true, ...goal([0.5], [1]) }),
    busyCase(of(PUT, goal([1.4, 1.1], [1.5, 1.15]))),
    busyCase(of({ connections: 1 }, goal([1, 1], [1.2, 1.2]))),
    busyCase(of({}, goal([0.85, 1], [1.1, 1.1])), overloaded),
    busyCase(of(PUT, goal([0.65, 0.7], [1, 1])), overloaded),
  ];
}

/** The readme's cases with a goal: they depend on the threads that a command crosses. */
export function placementCases(timing: Timing): BenchCase[] {
  return readmeCases(timing).filter(({ goal }) => goal !== undefined);
}

export function allCases(timing: Timing): BenchCase[] {
  const of = withTiming(timing);
  const connections = [1, 50, 500, 2000];
  const pipelines = [1, 16, 64];
  return [
    of({ scenario: "list-tube-used" }),
    ...connections.map((count) => of({ connections: count })),
    { ...busyCase(of({})), group: "busy" },
    ...pipelines.slice(1).map((pipeline) => of({ pipeline })),
    ...pipelines.map((pipeline) => of({ ...PUT, pipeline })),
    ...[500, 2000].map((count) => of({ ...PUT, connections: count })),
    ...[1024, 65536, 2 ** 20].map((bodyBytes) => of({ bodyBytes, connections: bodyBytes > 65536 ? 8 : 50 })),
    ...pipelines.map((pipeline) => of({ ...PRODUCERS_CONSUMERS, connections: 100, pipeline })),
    of({ tubes: 200 }),
    of({ tubes: 200, pipeline: 16 }),
    of({ ...MANY_WATCHERS, tubes: 200 }),
    of(MANY_WATCHERS),
    of({ ...MANY_WATCHERS, rate: 4000 }),
    of({ scenario: "delayed", pipeline: 16, delaySeconds: 2, seconds: Math.max(4, timing.seconds) }),
    of({ scenario: "buried-kicked", pipeline: 16 }),
    ...["0", "50"].flatMap((fsync) => [
      of({}, { fsync }),
      of(PUT, { fsync }),
      of({ ...PUT, pipeline: 64 }, { fsync }),
    ]),
    memoryCase(1_000_000),
    startCase(1_000_000),
    sweepCase({ ...WORKLOAD_DEFAULTS, ...timing, connections: 50, pipeline: 4 }),
  ];
}

/** What takes minutes or answers a question of its own, and only runs when it is named. */
export function namedCases(
  timing: Timing,
  asked: { readonly jobs?: number; readonly seconds?: number },
): BenchCase[] {
  const base = { ...WORKLOAD_DEFAULTS, ...timing };
  return [
    backlogCase(asked.jobs ?? 5_000_000),
    bulkCase(asked.jobs ?? 1_000_000),
    batchCase(asked.jobs ?? 200_000),
    ...[1, 16, 64].map((pipeline) => uniqueCase(pipeline, asked.jobs ?? 1_000_000)),
    membersCase(asked.jobs ?? 500_000),
    schedulesCase(asked.jobs ?? 10_000, asked.seconds ?? 20),
    standingCase(asked.jobs ?? 1_000_000, { ...base, seconds: asked.seconds ?? STANDING_SECONDS }),
    p99At80Case(base),
    p99At80Case({ ...base, pipeline: 4 }),
    p99At80Case({ ...base, connections: 500 }),
    threadsCase(base),
    threadsCase({ ...base, pipeline: 16 }),
  ];
}

const goal = (needed: readonly number[], aim: readonly number[]): LoadCaseExtras => ({
  goal: { needed, aim },
});

/** A case with a log is one of `durable`. */
function withTiming(timing: Timing): (changes: Partial<Workload>, more?: LoadCaseExtras) => BenchCase {
  return (changes, more = {}) =>
    loadCase(
      { ...WORKLOAD_DEFAULTS, ...timing, ...changes },
      more.fsync === undefined ? more : { ...more, group: "durable" },
    );
}
