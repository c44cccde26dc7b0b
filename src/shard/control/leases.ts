// Leases: reservations that belong to no client connection. One session of the shard holds them all
// and never waits.
//
// A lease carries the job's count of reserves. It is valid only while the count is unchanged: every
// later reservation increments the count.

import { assert } from "../../base/assert.ts";
import { Outcome } from "../../engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import type { LeaseChange } from "../../message/control.ts";
import { Span } from "../../protocol/request.ts";
import { JobCounter } from "../../schema/job.ts";
import type { ControlShard } from "./control-work.ts";

/** Returns whether the job is still held by the lease with this count of reserves. */
function isLeased(
  { engine, nowMs }: ControlShard,
  leaseSession: number,
  id: number,
  reserves: number,
): boolean {
  engine.runDue(nowMs);
  assert(leaseSession >= 0, "leases are held by a session");
  const slot = engine.find(id);
  if (slot === NO_SLOT) return false;
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  return (
    page.state[row] === JobState.Reserved &&
    page.holder[row] === leaseSession &&
    page.count(row, JobCounter.reserves) === reserves
  );
}

/** Applies a change to a lease. Returns false, without any effect, if the lease has ended. */
export function changeLease(shard: ControlShard, leaseSession: number, change: LeaseChange): boolean {
  const { engine, nowMs } = shard;
  const { act, id, reserves } = change;
  if (!isLeased(shard, leaseSession, id, reserves)) return false;
  const session = engine.session(leaseSession);
  const slot = engine.find(id);
  assert(slot !== NO_SLOT, "a leased job is on this shard");
  const pri = change.pri ?? engine.jobs.pageOf(slot).pri[rowOf(slot)]!;
  const outcomes = {
    delete: () => engine.delete(session, id, nowMs),
    release: () => engine.release(session, id, pri, change.delay ?? 0, nowMs, reasonOf(change)),
    bury: () => engine.bury(session, id, pri, nowMs, reasonOf(change)),
    touch: () => engine.touch(session, id, nowMs),
  };
  return outcomes[act]() === Outcome.Done;
}

function reasonOf({ reason }: LeaseChange): Span | undefined {
  if (reason === undefined || reason === null) return undefined;
  const span = new Span();
  span.set(reason, 0, reason.length);
  return span;
}

/** Makes the job ready again, as if its client had disconnected. */
export function giveBackLease(
  shard: ControlShard,
  leaseSession: number,
  id: number,
  reserves: number,
): boolean {
  if (!isLeased(shard, leaseSession, id, reserves)) return false;
  return shard.engine.giveBackOne(shard.engine.session(leaseSession), id, shard.nowMs) === Outcome.Done;
}
