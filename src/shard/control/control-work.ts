// Work on a question from the HTTP thread, in slices: a shard runs one slice per turn, besides
// commands.

import { assert, CHECKED } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { type JobFilter, stateBit } from "../../engine/job-walk.ts";
import { JobState, rowOf } from "../../engine/jobs/job-table.ts";
import type { StateName, Where } from "../../message/control.ts";
import { JobCounter } from "../../schema/job.ts";
import type { RecordLog } from "../records/record-log.ts";
import { batchesOf, hasKeys } from "../sessions/job-text.ts";

/** The parts of the shard that a question may use. */
export interface ControlShard {
  readonly engine: Engine;
  /** Undefined without a log. */
  readonly records: RecordLog | undefined;
  /** The time of the current turn, in monotonic ms. */
  readonly nowMs: number;
  readonly clock: () => number;
  /**
   * The number of ports into the shard. A session's index is its slot times this number, plus its
   * port.
   */
  readonly portCount: number;
  /** Index of the session that holds leased jobs. */
  readonly leaseSession: number;
  ownsTube(name: string): boolean;
}

/** Takes the parts of an answer. */
export interface ControlAnswerer {
  /** The largest part, in bytes. */
  readonly partBytesMax: number;
  /** Sends a part, encoded as MessagePack. */
  value(value: unknown, isLast: boolean): void;
  bytes(bytes: Uint8Array, length: number, isLast: boolean): void;
}

export interface ControlWork {
  /** Runs a slice and sends at most one part. Returns true after the last one. */
  step(answerer: ControlAnswerer): boolean;
  /** Whether it has to wait for another part of the server; undefined means false. */
  readonly isWaiting?: boolean;
  /** Ends the work after the jobs that it has begun, because the rest is no longer wanted. */
  cancel?(): void;
}

// Job filters of the HTTP API: the part that the engine's walk applies and the part that it does
// not.

const STATES: Readonly<Record<StateName, JobState>> = {
  ready: JobState.Ready,
  reserved: JobState.Reserved,
  delayed: JobState.Delayed,
  buried: JobState.Buried,
};

export const stateOf = (name: StateName): JobState => STATES[name];

/** Returns the part of the filter that a walk applies. Jobs in transit do not match. */
export function filterOf(states: readonly StateName[], where: Where, nowMs: number): JobFilter {
  return {
    states: states.reduce((bits, name) => bits | stateBit(STATES[name]), 0),
    createdByMs: where.ageFrom === undefined ? Number.POSITIVE_INFINITY : nowMs - where.ageFrom * 1000,
    contains: where.text,
  };
}

/** Returns whether a job that a walk has found matches the rest of the filter. */
export function matchesWhere(engine: Engine, slot: number, where: Where, nowMs: number): boolean {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const { idFrom = 0, priFrom = 0, reservesFrom = 0, timeoutsFrom = 0, disconnectsFrom = 0 } = where;
  const { idTo = Infinity, priTo = Infinity, ageTo = Infinity } = where;
  const id = page.id[row]!;
  const pri = page.pri[row]!;
  if (CHECKED) assert(page.state[row] !== JobState.Free, "a job that is filtered exists");
  if (where.dead !== undefined && (page.extras?.isDead(row) === true) !== where.dead) return false;
  return (
    id >= idFrom &&
    id <= idTo &&
    pri >= priFrom &&
    pri <= priTo &&
    nowMs - page.createdAtMs[row]! <= ageTo * 1000 &&
    page.count(row, JobCounter.reserves) >= reservesFrom &&
    page.count(row, JobCounter.timeouts) >= timeoutsFrom &&
    page.count(row, JobCounter.disconnects) >= disconnectsFrom &&
    hasKeys(engine, slot, where) &&
    hasBatches(engine, slot, where)
  );
}

/**
 * Returns whether a job matches the batches of a filter: the one that it belongs to, the one that
 * it waits for, and one that may be either.
 */
function hasBatches(engine: Engine, slot: number, { batch, waitsFor, ofBatch }: Where): boolean {
  if (batch === undefined && waitsFor === undefined && ofBatch === undefined) return true;
  const own = batchesOf(engine, slot);
  const awaited = own.waitsFor?.name;
  return (
    (batch === undefined || own.batch === batch) &&
    (waitsFor === undefined || awaited === waitsFor) &&
    (ofBatch === undefined || own.batch === ofBatch || awaited === ofBatch)
  );
}
