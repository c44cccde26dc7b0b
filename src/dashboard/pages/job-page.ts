// Job page: live properties of the job, its body and its actions.

import { html, nothing } from "lit-html";
import {
  ago,
  agoSince,
  COLUMNS,
  empty,
  facts,
  findLink,
  folded,
  nameOf,
  type Part,
  STATES,
  saidLine,
  tubeAnchor,
  tubeTable,
} from "../parts/elements.ts";
import { deathOf, failureLine, failuresCard } from "../parts/failures.ts";
import { duration, exact, time, tubes as tubeCount } from "../parts/format.ts";
import { bodyStart, searching } from "../parts/lists.ts";
import type { PageContext } from "../parts/page-context.ts";
import type { FinishedRow, JobRow, JobsPage, Refused, TubesView } from "../parts/view-types.ts";
import { batchLink } from "./batch-page.ts";
import { bodyCard } from "./job-body.ts";

// Find page: jobs of all tubes whose bodies contain a text, and tubes whose names do.

const TUBES_SHOWN = 10;
const SHORT_COLUMNS = COLUMNS.filter(({ key }) => ["ready", "reserved", "buried", "oldest"].includes(key));

export function showFind({ tubes: { items, matched } }: TubesView, context: PageContext): Part {
  const text = context.place.query.get("text") ?? "";
  if (text === "")
    return html`<div class="title"><h1>Find</h1></div>
      <section class="card">${empty("Type the id of a job, or a text, into the field at the top.")}</section>`;
  return html`
    <div class="title"><h1>“${text}”</h1><span class="quiet">in all tubes</span></div>
    <section class="card" aria-labelledby="found-jobs">
      <h2 id="found-jobs">Jobs <small>with this text in the body</small></h2>
      ${jobs(context)}
    </section>
    <section class="card" aria-labelledby="found-tubes">
      <h2 id="found-tubes">Tubes <small>with this text in the name</small></h2>
      ${
        matched === 0
          ? empty("None.")
          : html`${tubeTable(items.slice(0, TUBES_SHOWN), "Found tubes", SHORT_COLUMNS)}
            ${
              matched > TUBES_SHOWN
                ? html`<p class="quiet"><a href="#/tubes?${new URLSearchParams({ match: text })}">All ${tubeCount(matched)}</a></p>`
                : nothing
            }`
      }
    </section>
  `;
}

function jobs(context: PageContext): Part {
  if (!context.may("bodies")) return html`<p class="quiet">Your role can't see the bodies of jobs.</p>`;
  const page = context.fetched as JobsPage | Refused | undefined;
  if (page === undefined) return html`<p class="quiet">…</p>`;
  if ("status" in page) return empty(page.detail);
  if (page.items.length === 0 && page.cursor !== null) return searching(page.cursor, page.examined, context);
  const { query } = context.place;
  const state = query.get("state") ?? "";
  const states = html`<div class="bar" role="group" aria-label="State of the jobs">
    ${["", ...STATES.map(({ name }) => name)].map(
      (each) => html`<button class="button" type="button" aria-pressed=${each === state}
        @click=${() => context.go({ state: each, cursor: "" })}>${each === "" ? "all" : each}</button>`,
    )}
  </div>`;
  return html`${states} ${page.items.length === 0 ? empty(query.has("cursor") ? "No further job." : "No job.") : table(page)}
    <div class="bar">
      <span class="quiet">${exact(page.items.length)} found, ${exact(page.examined)} looked at</span>
      ${
        page.cursor === null
          ? nothing
          : html`<button class="button" type="button" @click=${() => context.go({ cursor: page.cursor! })}>Look further</button>`
      }
      ${
        query.has("cursor")
          ? html`<button class="button" type="button" @click=${() => context.go({ cursor: "" })}>From the start</button>`
          : nothing
      }
    </div>`;
}

function table({ items }: JobsPage): Part {
  return html`<div class="scroll heads" tabindex="0" role="region" aria-label="List of jobs">
    <table class="cards">
      <caption class="hidden">Jobs with this text in the body</caption>
      <thead>
        <tr>
          <th scope="col">id</th><th scope="col" class="left">tube</th><th scope="col" class="left">state</th>
          <th scope="col">age</th><th scope="col" class="left">body</th>
        </tr>
      </thead>
      <tbody>
        ${items.map(
          (job) => html`<tr>
            <th scope="row"><a href="#/jobs/${job.id}">${job.id}</a></th>
            <td class="left">${tubeAnchor(job.tube)}</td>
            <td class="left"><span class=${job.state}><span aria-hidden="true">${STATES.find(({ name }) => name === job.state)?.sign ?? ""}</span> ${job.state}</span></td>
            <td data-label="age">${ago(job.age)}</td>
            <td class="left rest">${bodyStart(job)}${failureLine(job)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** Shows what is kept of a job that is gone. */
function showFinished(job: FinishedRow): Part {
  const { put, start, end } = job;
  const text = (label: string, value: string | null): [string, Part][] =>
    value === null ? [] : [[label, html`${value}`]];
  const ran = start === null ? null : (Date.parse(end) - Date.parse(start)) / 1000;
  return html`
    <div class="title">
      <h1>Job ${job.id}</h1>
      <span class="badge">${job.state}</span>
      <span>in ${tubeAnchor(job.tube)}</span>
    </div>
    <section class="card" aria-label="Figures">
      ${facts([
        ["ended", html`${agoSince(end)} ago`],
        ...(start === null ? [] : [["last reserved", html`${agoSince(start)} ago`] as [string, Part]]),
        ...(ran === null ? [] : [["held for", time(ran)] as [string, string]]),
        ["put", html`${agoSince(put)} ago`],
        ["attempts", exact(job.attempts)],
        ...text("worker", job.worker),
        ...text("unique key", job.unique),
        ...text("group", job.group),
        ...text("note", job.note),
        ...text("reason", job.reason),
      ])}
      <p class="quiet">The job is gone. Its tube keeps the ends of its last jobs in memory.</p>
    </section>`;
}

export function showJob(
  { job: found }: { readonly job: JobRow | FinishedRow | null },
  context: PageContext,
): Part {
  const { name } = context.place;
  if (found === null)
    return html`<div class="title"><h1>Job ${name}</h1></div>
      <section class="card">${empty("There is no such job: it was deleted, or never put.", html`<p><a href=${findLink(name)}>Look for “${name}” in the bodies of all jobs</a></p>`)}</section>`;
  if ("end" in found) return showFinished(found);
  // The page asks for none, which is not that it is empty.
  const { body: _none, ...job } = found;
  const body = bodyOf(context.fetched as JobRow | Refused | undefined, job);
  const state = STATES.find(({ name }) => name === job.state);
  return html`
    <div class="title">
      <h1>Job ${job.id}</h1>
      <span class="badge ${job.state}"><span aria-hidden="true">${state?.sign ?? ""}</span> ${job.state}</span>
      <span>in ${tubeAnchor(job.tube)}</span>
      ${context.may("manage") ? jobActions({ ...job, ...body }, context) : nothing}
    </div>
    <section class="card" aria-label="Figures">
      ${facts([
        ...sinceWhen(job),
        ["priority", exact(job.pri)],
        ["put", html`${ago(job.age)} ago`],
        ["delay", duration(job.delay)],
        ["time to run", duration(job.ttr)],
        ["attempts", exact(job.attempts)],
        ...policyFacts(job),
        ...(["reserves", "timeouts", "disconnects", "releases", "buries", "kicks"] as const).map(
          (key): [string, string] => [key, exact(job[key])],
        ),
      ])}
    </section>
    ${job.progress === null && job.note === null && job.cancelled === null ? nothing : html`<section class="card" aria-label="Progress"><h2>Progress</h2>${saidLine(job)}</section>`}
    ${job.failures.length === 0 ? nothing : failuresCard(job.failures)}
    ${bodyCard({ ...job, ...body }, context, { path: `v1/jobs/${job.id}/body`, name: `job-${job.id}` })}
  `;
}

/** The view has no body. */
function bodyOf(fetched: JobRow | Refused | undefined, { id }: JobRow): Partial<JobRow> {
  if (fetched === undefined || !("id" in fetched) || fetched.id !== id) return {};
  const { body, bodyBase64, truncated } = fetched;
  return {
    truncated,
    ...(body === undefined ? {} : { body }),
    ...(bodyBase64 === undefined ? {} : { bodyBase64 }),
  };
}

function jobActions(job: JobRow, { act, may }: PageContext): Part {
  const { id, tube, state, body, truncated, pri, ttr } = job;
  const isReserved = state === "reserved";
  const button = (label: string, open: Parameters<PageContext["act"]>[0], tone = ""): Part =>
    html`<button class="button ${tone}" type="button" @click=${() => act(open)}>${label}</button>`;
  const of = { tube, state, ids: [id] };
  const buttons = html`
    ${state === "buried" || state === "delayed" ? button("Kick…", (actions) => actions.kickJob(id, tube)) : nothing}
    ${isReserved ? button("Release…", (actions) => actions.releaseJob(id, tube)) : nothing}
    ${
      may("put") && body !== undefined && !truncated
        ? button("Put again…", (actions) => actions.putJob(tube, { body, pri, ttr }))
        : nothing
    }
    ${isReserved ? nothing : button("Move…", (actions) => actions.moveJobs(of))}
    ${isReserved ? nothing : button("Update…", (actions) => actions.updateJobs(of))}
    ${job.cancelled === null ? button("Cancel…", (actions) => actions.cancelJob(id, tube, isReserved), "bad") : nothing}
    ${button("Delete…", (actions) => actions.deleteJob(id, tube, isReserved), "bad")}`;
  return html`<div class="actions">${folded("Actions", buttons)}</div>`;
}

/** Returns the properties that come from the tube's policies and the put's options. */
function policyFacts(job: JobRow): [string, string | Part][] {
  const { origin, unique, group, cost, expiresIn, batch } = job;
  return [
    ...(batch === null
      ? []
      : [
          ["member of", html`<a class="name" href=${batchLink(batch)} title=${batch}>${batch}</a>`] as [
            string,
            Part,
          ],
        ]),
    ...(origin === null ? [] : [["died in", html`${tubeAnchor(origin)}: ${deathOf(job)}`] as [string, Part]]),
    // A cancelled job counts as expired.
    ...(expiresIn === null || job.cancelled !== null
      ? []
      : [["expires in", duration(expiresIn)] as [string, string]]),
    ...(unique === null ? [] : [["unique key", nameOf(unique)] as [string, Part]]),
    ...(group === null ? [] : [["group", nameOf(group)] as [string, Part]]),
    ...(cost === 1 ? [] : [["cost", exact(cost)] as [string, string]]),
  ];
}

/** Returns facts about the job's state: since when, for how long, and the holder. */
function sinceWhen(job: JobRow): [string, string | Part][] {
  const { state, timeLeft, holder, worker, readySince, buriedSince } = job;
  if (state === "ready") return [["ready for", ago(readySince)]];
  if (state === "buried") return [["buried for", ago(buriedSince)]];
  const left: [string, string] = ["time left", duration(timeLeft)];
  if (job.waitsFor !== null) {
    const label = job.waitsForAny ? "waits for the end of" : "waits for the success of";
    return [
      [
        label,
        html`<a class="name" href=${batchLink(job.waitsFor)} title=${job.waitsFor}>${job.waitsFor}</a>`,
      ],
    ];
  }
  if (state === "delayed") return [left];
  const who =
    holder === "lease"
      ? html`${nameOf(worker ?? "–")}, over HTTP`
      : html`<a href="#/connections?state=holding&tube=${encodeURIComponent(job.tube)}" class="name" title=${worker ?? ""}>${worker}</a>`;
  return [["held by", who], left];
}
