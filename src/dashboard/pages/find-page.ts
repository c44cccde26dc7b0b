// Find page: jobs of all tubes whose bodies contain a text, and tubes whose names do.

import { html, nothing } from "lit-html";
import { failureLine } from "../parts/failures.ts";
import { exact, tubes as tubeCount } from "../parts/format.ts";
import { bodyStart, searching } from "../parts/job-cells.ts";
import type { PageContext } from "../parts/page-context.ts";
import { ago, COLUMNS, empty, type Part, STATES, tubeLink, tubeTable } from "../parts/parts.ts";
import type { JobsPage, Refused, TubesView } from "../parts/view-types.ts";

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
          : html`${tubeTable(items.slice(0, TUBES_SHOWN), "Tubes with this text in the name", SHORT_COLUMNS)}
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
  return html`<div class="scroll" tabindex="0" role="region" aria-label="List of jobs">
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
            <td class="left"><a href=${tubeLink(job.tube)}>${job.tube}</a></td>
            <td class="left"><span class=${job.state}><span aria-hidden="true">${STATES.find(({ name }) => name === job.state)?.sign ?? ""}</span> ${job.state}</span></td>
            <td data-label="age">${ago(job.age)}</td>
            <td class="left rest">${bodyStart(job)}${failureLine(job)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
