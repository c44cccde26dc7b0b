// Schedules for tests of an engine: each minute one without a body, unless a test says otherwise.

import assert from "node:assert/strict";
import { EMPTY_BODY } from "../../../src/engine/jobs/body-arena.ts";
import type { Schedule, ScheduleFacts, ScheduleProgress, Schedules } from "../../../src/engine/schedules.ts";
import { Missed, Overlap } from "../../../src/protocol/schedule-options.ts";

export const everyMs = (ms: number): ScheduleFacts["timing"] => ({ cron: "", zone: "UTC", everyMs: ms });

export const scheduleFacts = (name: string, facts: Partial<ScheduleFacts> = {}): ScheduleFacts => ({
  ...{ name, tube: "t", timing: everyMs(60_000), missed: Missed.Once, overlap: Overlap.Allow },
  ...{ pri: 0, delaySeconds: 0, delayMillis: 0, ttrSeconds: 60, ttlMs: 0, attributes: new Uint8Array(0) },
  ...facts,
});

const AT_THE_BEGINNING: ScheduleProgress = {
  ...{ version: 1, anchorMs: 0, nextMs: 1000, heldMs: 0, paused: false, lastMs: 0, lateJobs: 0 },
  ...{ fired: 0, runs: 0, missedTicks: 0, duplicates: 0, refusals: 0, skipped: 0 },
};

export function addSchedule(
  schedules: Schedules,
  id: number,
  name: string,
  facts: Partial<ScheduleFacts> = {},
  progress: Partial<ScheduleProgress> = {},
): Schedule {
  const body = { handle: EMPTY_BODY, bytes: 0 };
  assert.ok(schedules.set(id, true, scheduleFacts(name, facts), { ...AT_THE_BEGINNING, ...progress }, body));
  return schedules.table.get(name)!;
}
