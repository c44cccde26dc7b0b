// Page of a schedule: its next runs, its last run and that job's state, and the job that it puts.

import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { Asked } from "../parts/dialog.ts";
import {
  agoSince,
  empty,
  facts,
  folded,
  inTime,
  moment,
  type Part,
  serverNow,
  tubeAnchor,
  tubePath,
} from "../parts/elements.ts";
import { duration, exact } from "../parts/format.ts";
import { fetchedList } from "../parts/lists.ts";
import type { PageContext } from "../parts/page-context.ts";
import { send } from "../parts/request.ts";
import type { JobsPage, Refused, ScheduleRow, ScheduleView } from "../parts/view-types.ts";
import { bodyCard } from "./job-body.ts";

// Parts of the list of schedules and of the page of one: its times, its next run, its buttons.

/** A tick puts its job within a second, so an older one was refused, or the server is busy. */
const LATE_MS = 5000;

const scheduleLink = (name: string): string => `#/schedules/${encodeURIComponent(name)}`;

/** Returns how long the next run is overdue, in seconds; 0 if it is not late. */
function lateSeconds({ next, paused }: ScheduleRow): number {
  const lateMs = next === null || paused ? 0 : serverNow() - Date.parse(next);
  return lateMs < LATE_MS ? 0 : lateMs / 1000;
}

function nextRun(schedule: ScheduleRow): Part {
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

function scheduleButtons({ name, tube, paused }: ScheduleRow, { act }: PageContext): Part {
  const verb = paused ? "Resume…" : "Pause…";
  return html`<button class="button one-line" type="button" aria-label="${verb} the schedule ${name}"
      @click=${() => act((actions) => (paused ? actions.resumeSchedule(name) : actions.pauseSchedule(name)))}>${verb}</button>
    <button class="button one-line" type="button" aria-label="Run now… the schedule ${name}"
      @click=${() => act((actions) => actions.runSchedule(name, tube))}>Run now…</button>`;
}

// Schedules page: the next run of each one, and buttons to pause it and to run it now.

export function showSchedules(_view: unknown, context: PageContext): Part {
  return fetchedList<ScheduleRow>(context, {
    title: "Schedules",
    filter: {
      text: "name or tube",
      states: [
        ["active", "active"],
        ["paused", "paused"],
        ["late", "late"],
        ["missed", "has missed runs"],
      ],
    },
    table: (rows) => table(rows, context),
    none: {
      words: "No schedules. A schedule puts a job at the times of a cron expression, or at intervals:",
      command: "runnerbean schedule set nightly reports 'a body' --cron '30 2 * * *' --tz Europe/Berlin",
      docs: "commands.md#set-schedule-jobs-at-certain-times",
    },
  });
}

function table(rows: readonly ScheduleRow[], context: PageContext): Part {
  const mayManage = context.may("manage");
  return html`<div class="scroll names" tabindex="0" role="region" aria-label="List of schedules">
    <table class="cards">
      <caption class="hidden">Schedules, by name</caption>
      <thead>
        <tr>
          <th scope="col">name</th><th scope="col" class="left">tube</th><th scope="col" class="left">when</th>
          <th scope="col" class="left">next run</th><th scope="col" class="spare">last run</th>
          <th scope="col" class="spare">fired</th><th scope="col" class="spare" title="Runs that put no job">missed</th>
          <th scope="col" class="spare" title="Runs that put no job, because an earlier one existed">skipped</th>
          <th scope="col" class="spare" title="Refused attempts to put its job">refusals</th>
          ${mayManage ? html`<th scope="col"><span class="hidden">Pause it, run it</span></th>` : nothing}
        </tr>
      </thead>
      <tbody>${repeat(
        rows,
        ({ name }) => name,
        (each) => row(each, mayManage, context),
      )}</tbody>
    </table>
  </div>`;
}

function row(schedule: ScheduleRow, mayManage: boolean, context: PageContext): Part {
  const { name, tube, paused, last, fired, missedTicks, skipped, refusals } = schedule;
  return html`<tr>
    <th scope="row" class="pieces" ><a class="name" href=${scheduleLink(name)} title=${name}><bdi>${name}</bdi></a>${paused ? html` <span class="delayed one-line"><span aria-hidden="true">◷</span> paused</span>` : nothing}</th>
    <td class="left rest-line" data-label="tube">${tubeAnchor(tube)}</td>
    <td class="left rest-line pieces">${timesOf(schedule)}</td>
    <td class="left rest-line pieces ${paused ? "zero" : ""}" data-label="next run">${nextRun(schedule)}</td>
    <td class="spare" data-label="last run">${last === null ? "never" : html`${agoSince(last)} ago`}</td>
    <td class="spare" data-label="fired">${exact(fired)}</td>
    <td data-label="missed" class="spare ${missedTicks === 0 ? "zero" : ""}">${exact(missedTicks)}</td>
    <td data-label="skipped" class="spare ${skipped === 0 ? "zero" : ""}">${exact(skipped)}</td>
    <td data-label="refusals" class="spare ${refusals === 0 ? "zero" : "buried"}">${exact(refusals)}</td>
    ${mayManage ? html`<td class="rest-line pieces edge"><div class="bar">${scheduleButtons(schedule, context)}</div></td>` : nothing}
  </tr>`;
}

const REFRESH_MS = 5000;

/** The job of the last run. */
const lastJob = new Asked<JobsPage>(REFRESH_MS);

export function showSchedule(_view: unknown, context: PageContext): Part {
  const { name } = context.place;
  const fetched = context.fetched as ScheduleView | Refused | undefined;
  const head = html`<h1><bdi>${name}</bdi></h1>`;
  if (fetched !== undefined && "status" in fetched)
    return html`<div class="title">${head}</div>
      <section class="card">${empty(
        fetched.status === 404 ? "There is no such schedule: it was deleted, or never set." : fetched.detail,
        html`<p><a href="#/schedules">All schedules</a></p>`,
      )}</section>`;
  // The last answer may be about another schedule.
  if (fetched?.name !== name)
    return html`<div class="title">${head}</div><section class="card"><p class="quiet">…</p></section>`;
  return html`
    <div class="title">
      ${head} ${badge(fetched)} <span>into ${tubeAnchor(fetched.tube)}</span>
      ${context.may("manage") ? html`<div class="actions">${folded("Actions", scheduleButtons(fetched, context))}</div>` : nothing}
    </div>
    ${notice(fetched)}
    <div class="two">
      ${nextCard(fetched)}
      ${lastCard(fetched, context)}
    </div>
    <section class="card" aria-labelledby="puts">
      <h2 id="puts">The job that it puts</h2>
      ${facts(jobFacts(fetched))}
    </section>
    ${bodyCard(fetched, context)}
  `;
}

function badge(schedule: ScheduleView): Part {
  if (schedule.paused)
    return html`<span class="badge delayed"><span aria-hidden="true">◷</span> paused</span>`;
  return lateSeconds(schedule) > 0
    ? html`<span class="badge buried"><span aria-hidden="true">✖</span> late</span>`
    : nothing;
}

/** Why its job is refused, and the remedy. */
const REFUSALS: Readonly<Record<string, readonly [why: string, remedy: string]>> = {
  TUBE_FULL: ["its tube is full", "Start its workers, or raise the limits of the tube"],
  OUT_OF_MEMORY: ["the memory is full", "Start more workers, or raise max-memory"],
  LOG_FULL: ["the log is full", "Make room on its disk"],
  DRAINING: ["the server is draining", "Let it accept new jobs again, on the page Server"],
};

function notice(schedule: ScheduleView): Part {
  const { paused, lastRefusal } = schedule;
  if (paused)
    return html`<p class="notice" role="status">Paused: it puts no jobs until somebody resumes it. Runs until then are skipped.</p>`;
  const seconds = lateSeconds(schedule);
  if (seconds === 0) return nothing;
  const [why, remedy] = REFUSALS[lastRefusal ?? ""] ?? [
    "the server is busy",
    "It needs no action if this lasts only a moment",
  ];
  return html`<p class="notice" role="status">Late by ${duration(seconds)}: ${why}. ${remedy}. The server tries again each second until the next run.</p>`;
}

const nextCard = (schedule: ScheduleView): Part => html`<section class="card" aria-labelledby="next">
  <h2 id="next">Next runs <small>${timesOf(schedule)}</small></h2>
  ${
    schedule.nextRuns.length === 0
      ? html`<p class="quiet">None: it has no more runs.</p>`
      : html`<ol class="list">
        ${schedule.nextRuns.map((at, index) => html`<li>${index === 0 ? html`<span>${nextRun(schedule)}</span>` : html`<span>${inTime(at)}</span>`}</li>`)}
      </ol>`
  }
</section>`;

const MISSED: Readonly<Record<string, string>> = {
  once: "one job for all of them",
  all: "a job for each",
  none: "no job",
};

function lastCard(schedule: ScheduleView, context: PageContext): Part {
  const { fired, runs, missed, missedTicks, overlap, skipped, duplicates, refusals, lastRefusal } = schedule;
  return html`<section class="card" aria-labelledby="last">
    <h2 id="last">Last run</h2>
    ${lastRun(schedule, context)}
    ${facts([
      ["jobs from runs", exact(fired)],
      ["jobs from Run now", exact(runs)],
      ["missed times", html`<span class=${missedTicks > 0 ? "buried" : ""}>${exact(missedTicks)}</span>`],
      ["for missed runs", MISSED[missed] ?? missed],
      ["while an earlier job exists", overlap === "skip" ? "no job" : "another job"],
      ...(overlap === "skip" || skipped > 0
        ? [["skipped for an earlier job", exact(skipped)] as [string, string]]
        : []),
      [
        "refused attempts",
        html`<span class=${refusals > 0 ? "buried" : ""}>${exact(refusals)}${lastRefusal === null ? nothing : `, the last: ${REFUSALS[lastRefusal]?.[0] ?? lastRefusal}`}</span>`,
      ],
      ...(duplicates === 0
        ? []
        : [["runs whose key another job had", exact(duplicates)] as [string, string]]),
    ])}
  </section>`;
}

/** Shows the time of the last run, and where its job is now. */
function lastRun({ name, tube, last }: ScheduleView, { redraw }: PageContext): Part {
  if (last === null) return html`<p>It has put no job yet.</p>`;
  // The job of each run has its own key until it is done, dies or moves.
  const unique = `${name}@${last}`;
  const load = async (): Promise<JobsPage> =>
    (await send(
      "GET",
      tubePath(tube, "jobs", `${new URLSearchParams({ unique, limit: "1", bodyMax: "0" })}`),
    )) as JobsPage;
  const page = lastJob.last(JSON.stringify([tube, unique]), load, redraw);
  const [job] = page?.items ?? [];
  const became =
    page === undefined
      ? "…"
      : job === undefined
        ? "Its job is no longer in the tube: done, deleted, dead or moved."
        : html`<a href="#/jobs/${job.id}">Job ${job.id}</a> is <span class=${job.state}>${job.state}</span>.`;
  return html`<p>${agoSince(last)} ago, <time class="quiet one-line" datetime=${last}>${moment(Date.parse(last))}</time>. ${became}</p>`;
}

function jobFacts({
  tube,
  pri,
  delay,
  ttr,
  ttl,
  group,
  weight,
  meta,
}: ScheduleView): [string, string | Part][] {
  const pairs = Object.entries(meta);
  return [
    ["tube", tubeAnchor(tube)],
    ["priority", exact(pri)],
    ["delay", duration(delay)],
    ["time to run", duration(ttr)],
    ["time to live", ttl === 0 ? "forever" : duration(ttl)],
    ...(group === null ? [] : [["group", group] as [string, string]]),
    ...(weight === 1 ? [] : [["weight", exact(weight)] as [string, string]]),
    ...(pairs.length === 0
      ? []
      : [["context", pairs.map(([key, value]) => `${key}: ${value}`).join(", ")] as [string, string]]),
  ];
}
