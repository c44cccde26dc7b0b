// The texts of stats-job, stats-tube, inspect-job and inspect-tube, as the chosen compatibility quotes it.

import type { Engine } from "../../engine/engine.ts";
import { JobState, rowOf } from "../../engine/job-table.ts";
import type { Tube } from "../../engine/tube.ts";

export const STATE_NAMES: Readonly<Record<number, string>> = {
  [JobState.Ready]: "ready",
  [JobState.Reserved]: "reserved",
  [JobState.Buried]: "buried",
  [JobState.Delayed]: "delayed",
};
/** C reads its clock anew, so that a fresh delay of 10 s has 9 left; a batch here shares one reading. */
const CLOCK_STEP_MS = 0.001;

export const secondsLeft = (untilMs: number, nowMs: number): number =>
  Math.max(0, Math.floor((untilMs - nowMs - CLOCK_STEP_MS) / 1000));

/** An acceptor read its clock for the put line, and may be a moment ahead of the turn that asks. */
export const ageSeconds = (createdAtMs: number, nowMs: number): number =>
  Math.max(0, Math.floor((nowMs - createdAtMs) / 1000));

/** The YAML of stats-job, without the framing of its reply. */
export function statsJobText(
  engine: Engine,
  slot: number,
  nowMs: number,
  quoteNames: boolean,
  file: number,
): string {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const state = page.state[row]!;
  const timed = state === JobState.Reserved || state === JobState.Delayed;
  const name = engine.tubeOf(slot).name;
  return `---
id: ${page.id[row]}
tube: ${quoteNames ? `"${name}"` : name}
state: ${STATE_NAMES[state]}
pri: ${page.pri[row]}
age: ${ageSeconds(page.createdAtMs[row]!, nowMs)}
delay: ${page.delaySeconds[row]}
ttr: ${page.ttrSeconds[row]}
time-left: ${timed ? secondsLeft(page.deadlineAtMs[row]!, nowMs) : 0}
file: ${file}
reserves: ${page.reserves[row]}
timeouts: ${page.timeouts[row]}
releases: ${page.releases[row]}
buries: ${page.buries[row]}
kicks: ${page.kicks[row]}
`;
}

/** The YAML of stats-tube, without the framing of its reply. */
export function statsTubeText(engine: Engine, tube: Tube, nowMs: number, quoteNames: boolean): string {
  return `---
name: ${quoteNames ? `"${tube.name}"` : tube.name}
current-jobs-urgent: ${tube.urgentJobs}
current-jobs-ready: ${tube.jobsIn(JobState.Ready)}
current-jobs-reserved: ${tube.jobsIn(JobState.Reserved)}
current-jobs-delayed: ${tube.jobsIn(JobState.Delayed)}
current-jobs-buried: ${tube.jobsIn(JobState.Buried)}
total-jobs: ${tube.totalJobs}
current-using: ${tube.using}
current-watching: ${tube.watching}
current-waiting: ${engine.waitingOn(tube)}
cmd-delete: ${tube.deletes}
cmd-pause-tube: ${tube.pauses}
pause: ${tube.pauseSeconds}
pause-time-left: ${tube.paused ? secondsLeft(tube.pauseTimer.atMs, nowMs) : 0}
`;
}

/** What inspect-job adds to the text of stats-job; `holder` names who holds it, or says that nobody does. */
export function inspectJobText(engine: Engine, slot: number, nowMs: number, holder: string): string {
  const page = engine.jobs.pageOf(slot);
  const row = rowOf(slot);
  const state = page.state[row]!;
  const timed = state === JobState.Reserved || state === JobState.Delayed;
  const leftMs = timed ? Math.max(0, Math.floor(page.deadlineAtMs[row]! - nowMs)) : 0;
  return `bytes: ${page.bodyBytes[row]}
time-left-ms: ${leftMs}
holder: ${holder}
`;
}

/** The YAML of inspect-tube, without the framing of its reply. */
export function inspectTubeText(engine: Engine, tube: Tube, nowMs: number): string {
  const next = tube.jobsIn(JobState.Ready) === 0 ? undefined : tube.ready.top;
  const createdAtMs = next === undefined ? nowMs : engine.jobs.pageOf(next).createdAtMs[rowOf(next)]!;
  return `---
bytes: ${tube.bytes}
next-age: ${ageSeconds(createdAtMs, nowMs)}
`;
}
