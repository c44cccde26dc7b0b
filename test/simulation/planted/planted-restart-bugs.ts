// Bugs planted in the recovery of job options, unique keys and tube settings, which the simulation
// must find. Most of them guess the log's content, or change it in memory only.

import type { Engine } from "../../../src/engine/engine.ts";
import { NO_SLOT } from "../../../src/engine/jobs/job-table.ts";
import type { JobAttributes } from "../../../src/engine/jobs/new-job.ts";
import { isWide } from "../../../src/engine/tubes/tube-settings.ts";
import { DeathReason } from "../../../src/protocol/job-attribute.ts";
import { JobCounter } from "../../../src/schema/job.ts";
import type { InProcessServer } from "../server/in-process-server.ts";
import { inEachEngine, type PlantedBug } from "./planted-bug.ts";

function plantedInRestart(name: string, plant: (server: InProcessServer) => void): PlantedBug {
  return { name, options: { plant, extensions: true, policies: true, jobMoves: true, durable: true } };
}

/** The same, where the wall clock is set. */
const plantedInClock = (name: string, plant: (server: InProcessServer) => void): PlantedBug => ({
  name,
  options: { ...plantedInRestart(name, plant).options, clockSteps: true },
});

const plantedInEngine = (name: string, plant: (engine: Engine) => void): PlantedBug =>
  plantedInRestart(name, inEachEngine(plant));

/** Changes what a restart makes of the attributes of a job. */
const reading = (name: string, change: (attributes: JobAttributes, reserves: number) => void): PlantedBug =>
  plantedInEngine(name, (engine) => {
    const restore = engine.restore.bind(engine);
    engine.restore = (job, body, attributes) => {
      if (attributes !== undefined) change(attributes, job.counters[JobCounter.reserves]!);
      restore(job, body, attributes);
    };
  });

export const PLANTED_RESTART_BUGS: readonly PlantedBug[] = [
  plantedInClock("a step of the wall clock is not noted", ({ logClock }) => {
    if (logClock === undefined) return;
    logClock.look = () => {
      logClock.lookAtMs = Number.POSITIVE_INFINITY;
    };
  }),
  plantedInClock("a start takes the wall clock for the log's", ({ log, logClock }) => {
    if (logClock !== undefined) Object.assign(logClock, { offsetMs: log!.wallOffsetMs });
  }),
  reading("of jobs that could have a key the one with the smallest id has it at a start", (attributes) => {
    attributes.keyState = undefined;
  }),
  plantedInEngine("a job that moves frees its key, although it is to be remembered", ({ policies }) => {
    policies.keys.leave = policies.keys.drop;
  }),
  plantedInEngine("a job that lands on another shard frees the key of its tube", ({ policies }) => {
    policies.keys.departed = policies.keys.drop;
  }),
  plantedInEngine("a key that a job leaves behind is not logged", ({ policies }) => {
    policies.keys.depart = () => {};
  }),
  plantedInRestart("the first reservation, which ends a key, is not logged", ({ shards, records }) => {
    for (const [shard, log] of records.entries()) {
      const { keys } = shards[shard]!.engine.policies;
      const reserved = keys.reserved.bind(keys);
      keys.reserved = (slot, nowMs) => {
        const { updated } = log;
        log.updated = () => {};
        reserved(slot, nowMs);
        log.updated = updated;
      };
    }
  }),
  plantedInRestart("a job that a put replaces has its old body after a restart", ({ shards, records }) => {
    for (const [shard, log] of records.entries()) {
      const { engine } = shards[shard]!;
      const putAgain = engine.changes.putAgain.bind(engine.changes);
      engine.changes.putAgain = (...args) => {
        const { replaced } = log;
        log.replaced = (slot) => log.updated(slot);
        const outcome = putAgain(...args);
        log.replaced = replaced;
        return outcome;
      };
    }
  }),
  plantedInEngine("a key is forgotten at a start if its job is gone", ({ policies }) => {
    policies.keys.restoreRemembered = () => {};
  }),
  plantedInEngine("a key is remembered for longer after a start", ({ policies: { keys } }) => {
    const restore = keys.restoreRemembered.bind(keys);
    keys.restoreRemembered = (tube, id, attributes) => {
      attributes.uniqueUntilMs += 500;
      restore(tube, id, attributes);
    };
  }),
  plantedInEngine("the end of a remembered key is not logged", (engine) => {
    const { keys } = engine.policies;
    const runOne = keys.runOne.bind(keys);
    keys.runOne = (nowMs) => {
      const { next } = keys.table;
      const isDue = keys.table.nextAtMs <= nowMs && next >= 0;
      if (!isDue || engine.find(keys.table.idOf(next)) !== NO_SLOT) return runOne(nowMs);
      keys.table.remove(next);
      return true;
    };
  }),
  reading("all attempts are left after a start", (attributes, reserves) => {
    attributes.attemptsBase = reserves;
  }),
  reading("a time to live ends with the server", (attributes) => {
    attributes.expiresAtMs = 0;
  }),
  reading("a dead job lives after a start", (attributes) => {
    attributes.reason = DeathReason.None;
  }),
  reading("where a dead job has died is forgotten at a start", (attributes) => {
    attributes.origin = new Uint8Array(0);
  }),
  plantedInRestart("what is set for a pattern is forgotten by all shards but the first", ({ shards }) => {
    for (const { tubeSetter } of shards.slice(1)) {
      const restore = tubeSetter.restore.bind(tubeSetter);
      tubeSetter.restore = (settings, nowMs) =>
        restore(
          [...settings].filter(([pattern]) => !isWide(pattern)),
          nowMs,
        );
    }
  }),
  plantedInEngine("buried jobs come back in another order", (engine) => {
    const end = engine.endRestore.bind(engine);
    engine.endRestore = () => {
      end();
      for (const { buried } of engine.tubes.values()) {
        const { first } = buried;
        if (first === NO_SLOT) continue;
        buried.remove(first);
        buried.append(first);
      }
    };
  }),
];
