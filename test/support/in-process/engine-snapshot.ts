// All that an engine counts and keeps, as one value: two of them are equal if nothing has changed.

import type { Engine } from "../../../src/engine/engine.ts";
import { NO_SLOT, rowOf } from "../../../src/engine/jobs/job-table.ts";
import type { Tube } from "../../../src/engine/tubes/tube.ts";
import { JOB_COUNTERS, JobCounter } from "../../../src/schema/job.ts";
import { slotsOf } from "./checked-engine.ts";

type Numbers = Record<string, number>;

/** Costs of a search and of a turn, which any command may have. */
const NO_STATE = new Set(["looks", "dueLeft"]);

/** The fields of an object that are numbers, whatever they are called. */
const numbersOf = (object: object): Numbers =>
  Object.fromEntries(
    Object.entries(object).filter(([name, value]) => typeof value === "number" && !NO_STATE.has(name)),
  );

function groupsOf({ groups }: Tube): unknown {
  if (groups === undefined) return undefined;
  const described = Array.from({ length: groups.unsettled + 2 * groups.size + 8 }, (_, number) => {
    const { key, weight, jobs, inWork } = groups.describe(number) ?? { key: "" };
    return key === "" ? [] : [key, weight, jobs, inWork];
  });
  return { groups: described.filter((each) => each.length > 0), ready: groups.ready, next: groups.next };
}

/** Returns what the engine has now. Sessions and their waits are not part of it. */
export function snapshotOf(engine: Engine): object {
  const { bodies, batches, jobs, policies, queues, schedules, tubes } = engine;
  const ids = slotsOf(engine).map((slot) => jobs.pageOf(slot).id[rowOf(slot)]!);
  const deadlines = [queues.delayTimers.nextAtMs, queues.nextExpiryAtMs, policies.keys.table.nextAtMs];
  return {
    shard: numbersOf(engine),
    jobs: ids.toSorted((a, b) => a - b).map((id) => [id, jobOf(engine, id)]),
    states: [...queues.counts],
    tubes: [...tubes.values()].map((tube) => ({
      name: tube.name,
      ...numbersOf(tube),
      counts: tube.countsIfAny === undefined ? {} : nonZero(tube.countsIfAny),
      groups: groupsOf(tube),
      tops: [tube.ready.top, tube.delayed.top, tube.buriedJobs === 0 ? NO_SLOT : tube.buried.first],
    })),
    keys: [...policies.keys.table.rows()].map((row) => [
      policies.keys.table.idOf(row),
      policies.keys.table.slotOf(row),
      policies.keys.table.untilOf(row),
    ]),
    batches: [...batches.all].map((batch) => numbersOf(batch)),
    batchTotals: [numbersOf(batches.counts), batches.counts.inState],
    schedules: [schedules.table.size, schedules.table.textBytes, { ...schedules.counts }],
    bodies: bodies.usedBytes,
    memory: engine.memoryBytes,
    deadlines,
  };
}

function jobOf(engine: Engine, id: number): Numbers {
  const slot = engine.find(id);
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const { extras } = page;
  return {
    state: page.state[row]!,
    pri: page.pri[row]!,
    tube: page.tube[row]!,
    bytes: page.bodyBytes[row]!,
    deadline: page.deadlineAtMs[row]!,
    delay: page.delaySeconds[row]!,
    ttr: page.ttrSeconds[row]!,
    counts: JOB_COUNTERS.reduce((sum, name) => sum + page.count(row, JobCounter[name]), 0),
    expires: extras?.expiresAtMs[row] ?? 0,
    key: extras?.keyRow[row] ?? -1,
    group: extras?.groupRow[row] ?? 0,
  };
}

/** A count of 0 may be there or not. */
const nonZero = (counts: object): Numbers =>
  Object.fromEntries(Object.entries(numbersOf(counts)).filter(([, count]) => count !== 0));
