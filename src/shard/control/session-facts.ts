// The jobs that connections hold on this shard, and whether they wait here.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import { NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import { type Session, Waiting } from "../../engine/waiting/session.ts";
import type { Answers, HeldJob, Questions } from "../../message/control.ts";
import type { ControlShard } from "./control-work.ts";

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
