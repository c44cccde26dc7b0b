// Schedules page: the next run of each one, and buttons to pause it and to run it now.

import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { fetchedList } from "../parts/fetched-list.ts";
import { exact } from "../parts/format.ts";
import type { PageContext } from "../parts/page-context.ts";
import { agoSince, type Part, tubeLink } from "../parts/parts.ts";
import type { ScheduleRow } from "../parts/view-types.ts";
import { nextRun, scheduleButtons, scheduleLink, timesOf } from "./schedule-parts.ts";

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
  const { name, tube, paused, last, fired, missedTicks, refusals } = schedule;
  return html`<tr>
    <th scope="row" class="pieces" title=${name}><a href=${scheduleLink(name)}><bdi>${name}</bdi></a>${paused ? html` <span class="delayed one-line"><span aria-hidden="true">◷</span> paused</span>` : nothing}</th>
    <td class="left" data-label="tube"><a href=${tubeLink(tube)}>${tube}</a></td>
    <td class="left rest-line pieces">${timesOf(schedule)}</td>
    <td class="left rest-line pieces ${paused ? "zero" : ""}" data-label="next run">${nextRun(schedule)}</td>
    <td class="spare" data-label="last run">${last === null ? "never" : html`${agoSince(last)} ago`}</td>
    <td class="spare" data-label="fired">${exact(fired)}</td>
    <td data-label="missed" class="spare ${missedTicks === 0 ? "zero" : ""}">${exact(missedTicks)}</td>
    <td data-label="refusals" class="spare ${refusals === 0 ? "zero" : "buried"}">${exact(refusals)}</td>
    ${mayManage ? html`<td class="rest-line pieces edge"><div class="bar">${scheduleButtons(schedule, context)}</div></td>` : nothing}
  </tr>`;
}
