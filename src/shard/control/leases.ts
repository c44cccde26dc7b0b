// Leases: reservations that belong to nobody's connection. One session of the shard holds them all, and never waits.
//
// What a lease may still do is decided by the job's count of reserves, which it carries: once the job was handed out again,
// to whomever, the count is another one.

import { Outcome } from "../../engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { LeaseChange } from "../../message/control.ts";
import type { ControlShard } from "./control-work.ts";

/** Whether the job is still leased, by the lease that has seen this count of reserves. */
function isLeased(
  { engine, nowMs }: ControlShard,
  leaseSession: number,
  id: number,
  reserves: number,
): boolean {
  engine.runDue(nowMs);
  const slot = engine.find(id);
  if (slot === NO_SLOT) return false;
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  return (
    page.state[row] === JobState.Reserved &&
    page.holder[row] === leaseSession &&
    page.reserves[row] === reserves
  );
}

/** Does what a lease asks for; false if it has ended, and then nothing was done. */
export function changeLease(shard: ControlShard, leaseSession: number, change: LeaseChange): boolean {
  const { engine, nowMs } = shard;
  const { act, id, reserves } = change;
  if (!isLeased(shard, leaseSession, id, reserves)) return false;
  const session = engine.session(leaseSession);
  const slot = engine.find(id);
  const pri = change.pri ?? engine.jobs.pageOf(slot).pri[rowOf(slot)]!;
  const outcomes = {
    delete: () => engine.delete(session, id, nowMs),
    release: () => engine.release(session, id, pri, change.delay ?? 0, nowMs),
    bury: () => engine.bury(session, id, pri, nowMs),
    touch: () => engine.touch(session, id, nowMs),
  };
  return outcomes[act]() === Outcome.Done;
}

/** The job is ready again, as if its client's connection had ended. */
export function giveBackLease(
  shard: ControlShard,
  leaseSession: number,
  id: number,
  reserves: number,
): boolean {
  if (!isLeased(shard, leaseSession, id, reserves)) return false;
  return shard.engine.giveBackOne(shard.engine.session(leaseSession), id, shard.nowMs) === Outcome.Done;
}
