// Metrics of batches and schedules: sums over all of them, since each may have a name of its own.

import type { ShardTotals } from "../../message/control.ts";
import { counter, type Family, gauge, type Labels, type Sample } from "./family.ts";

/** Returns a sample for each value of a label. */
const by = (label: string, values: Readonly<Record<string, number>>): Sample[] =>
  Object.entries(values).map(([word, value]) => ({ value, labels: { [label]: word } as Labels }));

export function* flowFamilies({
  batches,
  flows,
  scheduleLateMs,
  scheduleNextMs,
}: ShardTotals): Iterable<Family> {
  const { openMs, unfinishedMs, ...states } = batches;
  yield gauge("batches", "Batches by state.", by("state", states));
  yield counter("batches_opened", "Opened batches.", flows.batchesOpened);
  yield counter(
    "batches_completed",
    "Completed batches, by outcome.",
    by("outcome", {
      success: flows.batchesSuccess,
      failure: flows.batchesFailure,
      cancelled: flows.batchesCancelled,
    }),
  );
  yield gauge(
    "batch_open_seconds",
    "Seconds since the oldest batch that takes members was opened.",
    openMs / 1000,
  );
  yield gauge(
    "batch_unfinished_seconds",
    "Seconds since the oldest incomplete batch was opened.",
    unfinishedMs / 1000,
  );
  yield gauge("batch_members", "Members of batches that have not ended.", flows.members);
  yield counter(
    "batch_members_ended",
    "Members of batches that have ended: done if their workers deleted them, otherwise failed.",
    by("how", { done: flows.membersDone, failed: flows.membersFailed }),
  );
  yield gauge("batch_callbacks_waiting", "Jobs that wait for a batch.", flows.callbacksWaiting);
  yield counter(
    "batch_callbacks",
    "Jobs whose batch became complete: released or buried.",
    by("how", { released: flows.callbacksReleased, buried: flows.callbacksBuried }),
  );
  const { schedules, schedulesPaused: paused, schedulesRefused: refused } = flows;
  yield gauge(
    "schedules",
    "Schedules by state; refused: a tick is due, and its job was refused.",
    by("state", { active: schedules - paused - refused, paused, refused }),
  );
  yield gauge(
    "schedule_next_seconds",
    "Seconds until the earliest tick or the next attempt; no value without one.",
    scheduleNextMs === Number.POSITIVE_INFINITY ? [] : [{ value: scheduleNextMs / 1000 }],
  );
  yield gauge("schedule_late_seconds", "Longest time that a tick has been due.", scheduleLateMs / 1000);
  yield counter(
    "schedule_ticks",
    "Ticks: put a job, missed, or found their job already there.",
    by("how", { put: flows.ticksPut, missed: flows.ticksMissed, duplicate: flows.ticksDuplicate }),
  );
  yield counter("schedule_refusals", "Refused attempts of schedules to put a job.", flows.scheduleRefusals);
  yield counter("schedule_runs", "Jobs that run-schedule has put.", flows.scheduleRuns);
}
