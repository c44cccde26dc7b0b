// Parts of the list of schedules and of the page of one: its times, its next run, its buttons.

import { html } from "lit-html";
import { duration, exact } from "../parts/format.ts";
import type { PageContext } from "../parts/page-context.ts";
import { inTime, moment, type Part, serverNow } from "../parts/parts.ts";
import type { ScheduleRow } from "../parts/view-types.ts";

/** A tick puts its job within a second, so an older one was refused, or the server is busy. */
const LATE_MS = 5000;

export const scheduleLink = (name: string): string => `#/schedules/${encodeURIComponent(name)}`;

/** Returns how long the next run is overdue, in seconds; 0 if it is not late. */
export function lateSeconds({ next, paused }: ScheduleRow): number {
  const lateMs = next === null || paused ? 0 : serverNow() - Date.parse(next);
  return lateMs < LATE_MS ? 0 : lateMs / 1000;
}

export function nextRun(schedule: ScheduleRow): Part {
  const { next, paused } = schedule;
  if (next === null) return html`none`;
  if (paused) return html`if resumed, ${inTime(next)}`;
  const seconds = lateSeconds(schedule);
  if (seconds === 0) return inTime(next);
  const late = html`<span class="buried one-line"><span aria-hidden="true">✖</span> late by ${duration(seconds)}</span>`;
  return html`${late} <time class="quiet one-line" datetime=${next}>${moment(Date.parse(next))}</time>`;
}

export function timesOf({ cron, every, tz }: ScheduleRow): Part {
  if (cron === null) return html`every ${interval(every ?? 0)}`;
  return html`<code class="one-line">${cron}</code> <span class="quiet one-line">${tz}</span>`;
}

/** 90 min; exact, unlike a duration. */
function interval(seconds: number): string {
  if (seconds % 3600 === 0) return `${exact(seconds / 3600)} h`;
  return seconds % 60 === 0 ? `${exact(seconds / 60)} min` : `${seconds} s`;
}

export function scheduleButtons({ name, tube, paused }: ScheduleRow, { act }: PageContext): Part {
  const verb = paused ? "Resume…" : "Pause…";
  return html`<button class="button one-line" type="button" aria-label="${verb} the schedule ${name}"
      @click=${() => act((actions) => (paused ? actions.resumeSchedule(name) : actions.pauseSchedule(name)))}>${verb}</button>
    <button class="button one-line" type="button" aria-label="Run now… the schedule ${name}"
      @click=${() => act((actions) => actions.runSchedule(name, tube))}>Run now…</button>`;
}
