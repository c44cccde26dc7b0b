// Bugs planted in batches and schedules that show only beside keys, times to live, limits, drains
// and moves of jobs.

import type { Engine } from "../../../src/engine/engine.ts";
import { JobState } from "../../../src/engine/jobs/job-table.ts";
import { BatchState } from "../../../src/schema/batch.ts";
import type { InProcessServer } from "../server/in-process-server.ts";
import { inEachEngine, type PlantedBug } from "./planted-bug.ts";

const FLOWS = { extensions: true, policies: true, flows: true, jobMoves: true } as const;

/** Found where there are batches and schedules only. */
const plantedInFlows = (name: string, plant: (engine: Engine) => void): PlantedBug => ({
  name,
  options: { plant: inEachEngine(plant), ...FLOWS },
});

/** The same, with a log. */
const plantedInDurableFlows = (name: string, plant: (server: InProcessServer) => void): PlantedBug => ({
  name,
  options: { plant, ...FLOWS, durable: true },
});

/** Runs something while no job is seen to wait for a batch. */
function blindly<Result>({ batches }: Engine, run: () => Result): Result {
  const { waits } = batches;
  batches.waits = () => false;
  try {
    return run();
  } finally {
    batches.waits = waits;
  }
}

export const PLANTED_FLOW_BUGS: readonly PlantedBug[] = [
  {
    name: "a put that replaces a job that waits for a batch makes it ready",
    options: {
      plant: inEachEngine((engine) => {
        const putAgain = engine.changes.putAgain.bind(engine.changes);
        engine.changes.putAgain = (...put) => blindly(engine, () => putAgain(...put));
      }),
      ...FLOWS,
      duplicates: true,
    },
  },
  plantedInFlows("a member that expires and is buried is still open", (engine) => {
    const { policies, batches } = engine;
    const runOne = policies.runOne.bind(policies);
    policies.runOne = (nowMs) => {
      const { died } = batches;
      batches.died = () => {};
      const tube = runOne(nowMs);
      batches.died = died;
      return tube;
    };
  }),
  plantedInFlows("a job that expires stays among those that wait", (engine) => {
    const { policies, batches } = engine;
    const runOne = policies.runOne.bind(policies);
    policies.runOne = (nowMs) => {
      const { endWait } = batches;
      batches.endWait = () => {};
      const tube = runOne(nowMs);
      batches.endWait = endWait;
      return tube;
    };
  }),
  plantedInFlows("a batch has members before all shards know it", ({ batches }) => {
    const assume = batches.assume.bind(batches);
    batches.assume = (facts) =>
      assume(facts.state === BatchState.Opening ? { ...facts, state: BatchState.Open } : facts);
  }),
  plantedInDurableFlows("what a worker holds at a cancel is spared by the pass only", ({ shards }) => {
    for (const { engine } of shards) engine.batchEnds.assume = (facts) => engine.batches.assume(facts);
  }),
  plantedInDurableFlows("what a worker holds at a cancel is spared unlogged", ({ shards, records }) => {
    for (const [shard, log] of records.entries()) {
      const { engine } = shards[shard]!;
      const assume = engine.batchEnds.assume.bind(engine.batchEnds);
      engine.batchEnds.assume = (facts) => {
        const { updated } = log;
        log.updated = () => {};
        const batch = assume(facts);
        log.updated = updated;
        return batch;
      };
    }
  }),
  plantedInFlows("a schedule that is run puts its job twice", ({ schedules }) => {
    const run = schedules.run.bind(schedules);
    schedules.run = (...now) => {
      run(...now);
      return run(...now);
    };
  }),
  plantedInFlows("a schedule that is run gives its job an id, and puts none", ({ schedules }) => {
    schedules.run = () => schedules.takeJobId();
  }),
  plantedInFlows("ticks come although the server drains", ({ schedules }) => {
    Object.defineProperty(schedules, "isDraining", { get: () => () => false, set: () => {} });
  }),
  plantedInFlows("a tick with overlap=skip asks no other shard", ({ schedules }) => {
    Object.defineProperty(schedules, "askOthers", { get: () => undefined, set: () => {} });
  }),
  plantedInFlows("a tick with overlap=skip looks at jobs that wait only", ({ scheduled, queues }) => {
    const { has } = scheduled;
    scheduled.has = (name) => queues.counts[JobState.Reserved] === 0 && has.call(scheduled, name);
  }),
  plantedInFlows("a tick's job comes into a tube that is full", (engine) => {
    const putScheduled = engine.putScheduled.bind(engine);
    engine.putScheduled = (...put) => {
      const { isFull } = engine.policies;
      engine.policies.isFull = () => false;
      try {
        return putScheduled(...put);
      } finally {
        engine.policies.isFull = isFull;
      }
    };
  }),
];
