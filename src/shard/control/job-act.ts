// What an operator does to one job.

import { Outcome } from "../../engine/engine.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/job-table.ts";
import type { Answers, Questions } from "../../message/control.ts";
import type { ControlShard } from "./control-work.ts";

export function actOnJob(
  { engine, nowMs }: ControlShard,
  { id, act, force }: Questions["job-act"],
): Answers["job-act"] {
  engine.runDue(nowMs);
  const slot = engine.find(id);
  if (slot === NO_SLOT) return "not-found";
  const isReserved = engine.jobs.pageOf(slot).state[rowOf(slot)] === JobState.Reserved;
  if (act === "release") return engine.expire(id, nowMs) === Outcome.Done ? "done" : "state";
  if (act === "kick") return engine.kickJob(id, nowMs) === Outcome.Done ? "done" : "state";
  if (isReserved && !force) return "reserved";
  engine.discard(slot, nowMs);
  return "done";
}
