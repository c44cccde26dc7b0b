// Bugs planted in update-job, list-jobs and clear-tube, which the simulation must find.

import { NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import { type PlantedBug, plantedInExtension } from "./planted-bug.ts";

export const PLANTED_JOB_BUGS: readonly PlantedBug[] = [
  plantedInExtension("update-job is not logged", ({ shards, records }) => {
    for (const [shard, { engine }] of shards.entries()) {
      const log = records[shard];
      const update = engine.changes.update.bind(engine.changes);
      engine.changes.update = (...args) => {
        if (log === undefined) return update(...args);
        const { updated } = log;
        log.updated = () => {};
        try {
          return update(...args);
        } finally {
          log.updated = updated;
        }
      };
    }
  }),
  plantedInExtension("a ready job with another priority keeps its place in the queue", ({ shards }) => {
    for (const { engine } of shards) {
      const update = engine.changes.update.bind(engine.changes);
      engine.changes.update = (session, id, change, nowMs) => {
        const outcome = update(session, id, { ...change, pri: undefined }, nowMs);
        const slot = outcome === 0 ? engine.find(id) : NO_SLOT;
        if (slot !== NO_SLOT && change.pri !== undefined)
          engine.jobs.pageOf(slot).pri[rowOf(slot)] = change.pri;
        return outcome;
      };
    }
  }),
  plantedInExtension("update-job with a new ttr leaves the present reservation as it was", ({ shards }) => {
    for (const { engine } of shards) {
      const update = engine.changes.update.bind(engine.changes);
      engine.changes.update = (session, id, { ttrSeconds, ...change }, nowMs) => {
        const outcome = update(session, id, { ...change, ttrSeconds: undefined }, nowMs);
        const slot = outcome === 0 ? engine.find(id) : NO_SLOT;
        if (slot !== NO_SLOT && ttrSeconds !== undefined)
          engine.jobs.pageOf(slot).ttrSeconds[rowOf(slot)] = ttrSeconds;
        return outcome;
      };
    }
  }),
  plantedInExtension("a clear leaves the last job that it should take", ({ shards }) => {
    for (const { engine } of shards) {
      const clearing = engine.clearing.bind(engine);
      engine.clearing = (tube, filter, limit) =>
        clearing(tube, filter, limit === Number.POSITIVE_INFINITY ? limit : Math.max(1, limit - 1));
    }
  }),
  plantedInExtension("a clear is acknowledged and its deletes are not logged", ({ shards, records }) => {
    for (const [shard, { engine }] of shards.entries()) {
      const log = records[shard];
      const clear = engine.clear.bind(engine);
      engine.clear = (...args) => {
        if (log === undefined) return clear(...args);
        const { deleted } = log;
        log.deleted = () => {};
        try {
          return clear(...args);
        } finally {
          log.deleted = deleted;
        }
      };
    }
  }),
  plantedInExtension("a list leaves out the first job", ({ shards }) => {
    for (const { engine } of shards) {
      const walk = engine.walk.bind(engine);
      engine.walk = (filter, afterId) => walk(filter, afterId + 1);
    }
  }),
];
