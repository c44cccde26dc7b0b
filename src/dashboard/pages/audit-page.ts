// Audit page: running tasks, which can be stopped, and the manual changes.

import { html, nothing } from "lit-html";
import { SETTINGS, type Setting } from "../../schema/setting.ts";
import { empty, meter, nameOf, type Part, tubeAnchor, whenAndAgo } from "../parts/elements.ts";
import { exact } from "../parts/format.ts";
import type { PageContext } from "../parts/page-context.ts";
import { valueInWords } from "../parts/setting-fields.ts";
import type { ChangeRow, TaskRow } from "../parts/view-types.ts";

interface AuditView {
  readonly tasks: { readonly items: readonly TaskRow[] };
  /** Only with the permission to administer. */
  readonly changes?: { readonly items: readonly ChangeRow[]; readonly total: number };
}

const TASKS_SHOWN = 20;

export function showAudit({ tasks: { items }, changes }: AuditView, context: PageContext): Part {
  // A dry run of a dialog needs no mention once it has counted.
  const all = items.filter(({ act, state }) => act !== "count" || state === "running").reverse();
  const { true: running = [], false: over = [] } = Object.groupBy(
    all,
    ({ state }) => `${state === "running"}`,
  );
  const tasks = [...running, ...over].slice(0, TASKS_SHOWN);
  return html`
    <div class="title"><h1>Audit</h1></div>
    <section class="card" aria-labelledby="tasks">
      <h2 id="tasks">Tasks <small>operations on many jobs at once</small></h2>
      ${tasks.length === 0 ? empty("None so far. Kick, move and clear are tasks: they continue after you leave the page.") : taskTable(tasks, context)}
    </section>
    <section class="card" aria-labelledby="changes">
      <h2 id="changes">Changes <small>made by hand</small></h2>
      ${
        changes === undefined
          ? html`<p class="quiet">Only the role admin sees the changes.</p>`
          : changes.items.length === 0
            ? empty(
                "No manual changes since the server started. Puts and the work of workers are not listed.",
              )
            : html`${changeTable(changes.items)}
              <p class="quiet">
                ${changes.items.length < changes.total ? `The last ${exact(changes.items.length)} of ${exact(changes.total)} are shown; v1/audit has them all. ` : nothing}
                The server keeps the last 500; its log has them all.
              </p>`
      }
    </section>
  `;
}

const STATES: Readonly<Record<TaskRow["state"], readonly [tone: string, sign: string, word: string]>> = {
  running: ["reserved", "◔", "under way"],
  done: ["ready", "✓", "done"],
  cancelled: ["delayed", "◼", "stopped"],
  failed: ["buried", "✖", "failed"],
};

function taskTable(tasks: readonly TaskRow[], context: PageContext): Part {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="List of tasks">
    <table class="cards">
      <caption class="hidden">Tasks, the running ones first</caption>
      <thead>
        <tr>
          <th scope="col">does</th><th scope="col" class="left">tube</th><th scope="col" class="left">state</th>
          <th scope="col">jobs</th><th scope="col">began</th><th scope="col"><span class="hidden">Stop it</span></th>
        </tr>
      </thead>
      <tbody>${tasks.map((task) => taskRow(task, context))}</tbody>
    </table>
  </div>`;
}

function taskRow(
  { id, act, tube, state, fault, affected, progress, startedAt }: TaskRow,
  context: PageContext,
): Part {
  const [tone, sign, word] = STATES[state];
  return html`<tr>
    <th scope="row" title="task ${id}">${act}</th>
    <td class="left">${tubeAnchor(tube)}</td>
    <td class="left wide">
      <span class=${tone}><span aria-hidden="true">${sign}</span> ${word}${state === "running" ? ` ${Math.floor(progress * 100)} %` : ""}</span>
      ${state === "running" ? meter(progress) : nothing} ${fault ?? nothing}
    </td>
    <td data-label="jobs">${exact(affected)}</td>
    <td class="pieces" data-label="began">${whenAndAgo(startedAt)}</td>
    <td>
      ${
        state === "running"
          ? html`<button class="button" type="button" aria-label="Stop the task ${id}"
              @click=${() => context.act((actions) => actions.stopTask(id, act, tube))}>Stop…</button>`
          : nothing
      }
    </td>
  </tr>`;
}

/** Descriptions of routes such as "PUT /v1/tubes/:tube/pause". */
const DONE: Readonly<Record<string, string>> = {
  "PUT /v1/server/drain": "drained the server",
  "DELETE /v1/server/drain": "ended the draining",
  "POST /v1/server/reload": "reloaded the configuration",
  "DELETE /v1/connections/:id": "closed a connection",
  "PUT /v1/tubes/:tube/pause": "paused a tube",
  "DELETE /v1/tubes/:tube/pause": "resumed a tube",
  "POST /v1/tubes/:tube/kick": "kicked jobs",
  "POST /v1/tubes/:tube/clear": "cleared jobs",
  "POST /v1/tubes/:tube/move": "moved jobs",
  "POST /v1/tubes/:tube/update": "updated jobs",
  "POST /v1/tubes/:tube/redrive": "redrove dead jobs",
  "DELETE /v1/tubes/:tube": "deleted a tube",
  "PUT /v1/settings/:pattern": "replaced settings",
  "set-tube": "changed settings",
  "PATCH /v1/settings/:pattern": "changed settings",
  "DELETE /v1/settings/:pattern": "removed settings",
  "DELETE /v1/jobs/:id": "deleted a job",
  "POST /v1/jobs/:id/kick": "kicked a job",
  "POST /v1/jobs/:id/release": "released a job",
  "POST /v1/jobs/:id/move": "moved a job",
  "POST /v1/jobs/:id/update": "updated a job",
  "DELETE /v1/tasks/:id": "stopped a task",
  "PUT /v1/schedules/:name": "set a schedule",
  "DELETE /v1/schedules/:name": "deleted a schedule",
  "POST /v1/schedules/:name/pause": "paused a schedule",
  "POST /v1/schedules/:name/resume": "resumed a schedule",
  "POST /v1/schedules/:name/run": "ran a schedule now",
  "POST /v1/batches/:batch/cancel": "cancelled a batch",
};

const MOVED = "POST /v1/tubes/:tube/move";
const ACCEPTED = 202;

function changeTable(changes: readonly ChangeRow[]): Part {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="List of changes">
    <table class="cards">
      <caption class="hidden">Changes made by hand, newest first</caption>
      <thead>
        <tr>
          <th scope="col">when</th><th scope="col" class="left">who</th><th scope="col" class="left optional">from</th>
          <th scope="col" class="left">what</th><th scope="col" class="left">of</th><th scope="col">jobs</th>
        </tr>
      </thead>
      <tbody>${changes.map((change) => changeRow(change))}</tbody>
    </table>
  </div>`;
}

function changeRow(change: ChangeRow): Part {
  const { at, who, address, method, route, what, affected, status } = change;
  const call = route === "" ? method : `${method} ${route}`;
  const isTask = status === ACCEPTED && route.startsWith("/v1/tubes/");
  const jobs = affected === null ? (isTask ? "a task" : "") : exact(affected);
  return html`<tr>
    <td class="pieces">${whenAndAgo(at)}</td>
    <th scope="row" class="left">${who ?? html`<span class="quiet">somebody</span>`}</th>
    <td class="left optional">${address ?? "a unix socket"}</td>
    <td class="left" title="${call}: ${status}">${call === MOVED && what["copy"] === "true" ? "copied jobs" : (DONE[call] ?? call)}</td>
    <td class="left pieces rest-line">${ofWhat(what)} ${settingChanges(change)}</td>
    <td data-label=${jobs === "" ? nothing : "jobs"}>${jobs}</td>
  </tr>`;
}

function ofWhat({ tube, id, pattern, name, batch, to }: ChangeRow["what"]): Part {
  const other = pattern ?? name ?? batch ?? id;
  const of = tube !== undefined ? tubeAnchor(tube) : other === undefined ? nothing : nameOf(other);
  return to === undefined ? of : html`${of} to ${tubeAnchor(to)}`;
}

/** Lists the changed settings, with their old values. */
function settingChanges({ what, before }: ChangeRow): Part {
  if (what["pattern"] === undefined) return nothing;
  const said = SETTINGS.flatMap((setting) => {
    // Over HTTP they have the names of fields, and those of words in a command.
    const valueIn = (values: Readonly<Record<string, string>> | null): string | undefined =>
      values?.[setting.name] ?? values?.[setting.word];
    const [was, is] = [valueIn(before), valueIn(what)];
    if (was === undefined && is === undefined) return [];
    return [
      html`<li>${setting.label}: ${before === null ? nothing : html`${textOf(setting, was)} → `}<b>${textOf(setting, is)}</b></li>`,
    ];
  });
  return said.length === 0 ? nothing : html`<ul class="plain">${said}</ul>`;
}

/** Returns a value that was set, "null" or "" if it was removed. */
function textOf(setting: Setting, value: string | undefined): string | Part {
  if (value === undefined || value === "" || value === "null") return "none";
  if (setting.kind === "tube") return nameOf(value);
  // A command may have a unit: backoff=5m.
  const isNumber = typeof setting.unset === "number" && !Number.isNaN(Number(value));
  return valueInWords(setting, isNumber ? Number(value) : value);
}
