// An operator's action on one job.

import { Outcome } from "../../engine/engine.ts";
import { ENDS } from "../../engine/jobs/ends.ts";
import { JobState, NO_SLOT, rowOf } from "../../engine/jobs/job-table.ts";
import { MoveOutcome } from "../../engine/walks/tube-moving.ts";
import type { Answers, Questions } from "../../message/control.ts";
import type { ControlShard } from "./control-work.ts";

export function actOnJob(
  shard: ControlShard,
  { id, act, force, to }: Questions["job-act"],
): Answers["job-act"] {
  const { engine, nowMs } = shard;
  engine.runDue(nowMs);
  const slot = engine.find(id);
  if (slot === NO_SLOT) return "not-found";
  // The job is in transit to another shard.
  if (engine.isMoving(id)) return "reserved";
  const isReserved = engine.jobs.pageOf(slot).state[rowOf(slot)] === JobState.Reserved;
  if (act === "release") return engine.timeOutNow(id, nowMs) === Outcome.Done ? "done" : "state";
  if (act === "kick") return engine.kickJob(id, nowMs) === Outcome.Done ? "done" : "state";
  if (isReserved && (act === "move" || !force)) return "reserved";
  if (act === "move") return moveTo(shard, slot, to!);
  engine.discard(slot, ENDS.Deleted, nowMs);
  return "done";
}

function moveTo({ engine, nowMs }: ControlShard, slot: number, to: string): Answers["job-act"] {
  const outcome = engine.move(slot, to, false, nowMs);
  if (outcome === MoveOutcome.Elsewhere) return "elsewhere";
  return outcome === MoveOutcome.Full ? "full" : "done";
}
