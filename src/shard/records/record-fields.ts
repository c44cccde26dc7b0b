// Converts a job's row to the fields of a record.

import { assert } from "../../base/assert.ts";
import { type JobPage, JobState } from "../../engine/jobs/job-table.ts";
import { type RecordFields, RecordState } from "../../message/record.ts";

/**
 * Fills in everything but the burial, with the given state. `wallOffsetMs` is wall clock minus
 * monotonic clock.
 */
export function fillRecordFields(
  fields: RecordFields,
  page: JobPage,
  row: number,
  state: JobState,
  wallOffsetMs: number,
): void {
  fields.id = page.id[row]!;
  assert(fields.id > 0, "a record has the id of a job");
  fields.state =
    state === JobState.Delayed
      ? RecordState.delayed
      : state === JobState.Buried
        ? RecordState.buried
        : RecordState.ready;
  fields.pri = page.pri[row]!;
  fields.delaySeconds = page.delaySeconds[row]!;
  fields.ttrSeconds = page.ttrSeconds[row]!;
  fields.createdAtMs = page.createdAtMs[row]! + wallOffsetMs;
  fields.deadlineAtMs = state === JobState.Delayed ? page.deadlineAtMs[row]! + wallOffsetMs : 0;
  page.copyCounters(row, fields.counters);
  fields.burySequence = 0;
}
