// Leases: reservations that belong to no client connection. One session of the shard holds them all
// and never waits.
//
// A lease carries the job's count of reserves. It is valid only while the count is unchanged: every
// later reservation increments the count.

import { assert } from "../../base/assert.ts";
import { type Engine, Outcome } from "../../engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import { type Session, Waiting } from "../../engine/state/session.ts";
import type { Answers, HeldJob, LeaseChange, LeaseOutcome, Questions } from "../../message/control.ts";
import { Span } from "../../protocol/request.ts";
import { JobCounter } from "../../schema/job.ts";
import { saidOf } from "../sessions/job-text.ts";
import type { ControlShard } from "./control-work.ts";

/** Returns whether the job is still held by the lease with this count of reserves. */
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
    page.count(row, JobCounter.reserves) === reserves
  );
}

/** Applies a change to a lease. Returns false, without any effect, if the lease has ended. */
export function changeLease(shard: ControlShard, leaseSession: number, change: LeaseChange): LeaseOutcome {
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
  if (outcomes[act]() !== Outcome.Done) return false;
  if (act !== "touch") return true;
  const { note } = change;
  engine.policies.notes.set(slot, change.progress ?? undefined, note ?? undefined);
  return saidOf(engine, slot).cancelled ?? true;
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

// The jobs that connections hold on this shard, and whether they wait here.

/** Jobs listed for each connection. */
const JOBS_MAX = 100;

export function sessionFacts(
  { engine, nowMs, portCount }: ControlShard,
  { port, slots }: Questions["sessions"],
): Answers["sessions"] {
  assert(port < portCount, "a session has one of the ports");
  engine.runDue(nowMs);
  return slots.map((slot) => {
    const session = engine.sessionAt(slot * portCount + port);
    if (session === undefined) return { held: 0, jobs: [], waiting: false };
    return {
      held: session.held.size,
      jobs: heldJobs(engine, session, nowMs),
      waiting: session.waiting !== Waiting.No,
    };
  });
}

function heldJobs({ jobs }: Engine, session: Session, nowMs: number): HeldJob[] {
  const held: HeldJob[] = [];
  for (let slot = session.heldInOrder.first; slot !== NO_SLOT && held.length < JOBS_MAX; ) {
    const page = jobs.pageOf(slot);
    const row = rowOf(slot);
    held.push({ id: page.id[row]!, timeLeft: Math.max(0, page.deadlineAtMs[row]! - nowMs) / 1000 });
    slot = page.next[row]!;
  }
  assert(held.length <= session.held.size, "a session's list has no more jobs than it holds");
  return held;
}
