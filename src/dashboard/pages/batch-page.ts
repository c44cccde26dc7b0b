// Page of a batch: its progress, the places of its members, members that need attention, and the
// jobs that wait for it.

import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { type BatchJobs, jobsOfBatch } from "../parts/batch-jobs.ts";
import { Asked } from "../parts/dialog.ts";
import {
  ago,
  empty,
  facts,
  folded,
  type Part,
  STATES,
  tableHead,
  tile,
  tubeAnchor,
  tubeLink,
} from "../parts/elements.ts";
import { deathOf, reasonOf } from "../parts/failures.ts";
import { duration, exact, jobs as jobsInWords } from "../parts/format.ts";
import { fetchedList } from "../parts/lists.ts";
import type { PageContext } from "../parts/page-context.ts";
import { get } from "../parts/request.ts";
import type { BatchRow, JobRow, Refused } from "../parts/view-types.ts";

// Parts of the list of batches and of the page of one: its state and its progress.

export const batchLink = (name: string): string => `#/batches/${encodeURIComponent(name)}`;

const BATCH_STATES = {
  open: ["delayed", "◷", "open"],
  committed: ["reserved", "◔", "committed"],
  cancelled: ["buried", "◼", "cancelled, ends"],
} as const;
const OUTCOMES = {
  success: ["ready", "✓", "complete: success"],
  failure: ["buried", "✖", "complete: failure"],
  cancelled: ["buried", "◼", "complete: cancelled"],
} as const;

/** Returns the tone, the sign and the words of a batch's state. */
export const stateOf = ({
  state,
  outcome,
}: BatchRow): readonly [tone: string, sign: string, words: string] =>
  state === "complete" ? OUTCOMES[outcome ?? "success"] : BATCH_STATES[state];

/** Shows done and failed members as parts of a bar, and all numbers as text. */
export function progress({ members, done, failed, open, buried }: BatchRow): Part {
  const share = (count: number): string => `width:${((count / Math.max(1, members)) * 100).toFixed(1)}%`;
  // Set as properties, because the content security policy forbids style attributes.
  return html`<div class="meter parts" aria-hidden="true"><i .style=${share(done)}></i><i class="failed" .style=${share(failed)}></i></div>
    <span class="one-line">${exact(done)} done,</span>
    <span class="one-line ${failed > 0 ? "buried" : ""}">${exact(failed)} failed,</span>
    <span class="one-line">${exact(open)} open${buried > 0 ? ` (${exact(buried)} buried)` : ""}</span>`;
}

// Batches page: the progress of each one, and a button to cancel it.

export function showBatches(_view: unknown, context: PageContext): Part {
  return fetchedList<BatchRow>(context, {
    title: "Batches",
    filter: {
      text: "name",
      states: [
        ["unfinished", "not complete"],
        ["open", "open"],
        ["committed", "committed"],
        ...Object.entries(OUTCOMES).map(([outcome, [, , words]]) => [outcome, words] as const),
      ],
    },
    bar: orderChoice(context),
    table: (rows) => table(rows, context),
    none: {
      words:
        "No batches. Jobs of a batch belong together, and other jobs can wait until all of them have ended:",
      command:
        "runnerbean batch open import-7 && runnerbean put rows 'a body' --batch import-7 && runnerbean batch commit import-7",
      docs: "commands.md#open-batch-commit-batch-cancel-batch-inspect-batch-list-batches-jobs-that-belong-together",
    },
  });
}

const isOldestFirst = ({ place }: PageContext): boolean => place.query.get("order") === "asc";

const turnRound = (context: PageContext): void =>
  context.go({ order: isOldestFirst(context) ? "" : "asc", cursor: "" });

/** Replaces the column head where it is hidden. */
const orderChoice = (context: PageContext): Part => {
  const [is, turned] = isOldestFirst(context) ? ["oldest", "newest"] : ["newest", "oldest"];
  return html`<div class="bar where-optional-hides">
    <span class="quiet">The ${is} are first.</span>
    <button class="button" type="button" @click=${() => turnRound(context)}>Show the ${turned} first</button>
  </div>`;
};

function table(rows: readonly BatchRow[], context: PageContext): Part {
  const mayManage = context.may("manage");
  const oldest = isOldestFirst(context);
  const sorting = { sort: "opened", order: oldest ? "asc" : "desc", onSort: () => turnRound(context) };
  return html`<div class="scroll names" tabindex="0" role="region" aria-label="List of batches">
    <table class="cards">
      <caption class="hidden">Batches, the ${oldest ? "oldest" : "newest"} first</caption>
      <thead>
        <tr>
          <th scope="col">name</th><th scope="col" class="left">state</th><th scope="col" class="spare">members</th>
          <th scope="col" class="left">progress</th><th scope="col" title="Jobs that wait for the batch">waiting</th>
          ${tableHead("opened", "opened", "optional", sorting)}
          ${mayManage ? html`<th scope="col"><span class="hidden">Cancel it</span></th>` : nothing}
        </tr>
      </thead>
      <tbody>${repeat(
        rows,
        ({ number }) => number,
        (each) => row(each, mayManage, context),
      )}</tbody>
    </table>
  </div>`;
}

function row(batch: BatchRow, mayManage: boolean, context: PageContext): Part {
  const { name, members, state, waiting, age } = batch;
  const [tone, sign, words] = stateOf(batch);
  const isUnderWay = state === "open" || state === "committed";
  return html`<tr>
    <th scope="row"><a class="name" href=${batchLink(name)} title=${name}>${name}</a></th>
    <td class="left"><span class=${tone}><span aria-hidden="true">${sign}</span> ${words}</span></td>
    <td class="spare" data-label="members">${exact(members)}</td>
    <td class="left wide rest-line">${progress(batch)}</td>
    <td data-label="waiting" class=${waiting === 0 ? "zero" : ""}>${exact(waiting)}</td>
    <td class="optional">${ago(age)} ago</td>
    ${
      mayManage
        ? html`<td class="corner">${
            isUnderWay
              ? html`<button class="button bad" type="button" aria-label="Cancel… the batch ${name}"
                  @click=${() => context.act((actions) => actions.cancelBatch(name))}>Cancel…</button>`
              : nothing
          }</td>`
        : nothing
    }
  </tr>`;
}

const REFRESH_MS = 10_000;
/** Additional wait for each job that the last search examined: 50 s for a million. */
const REST_MS_PER_JOB = 0.05;
const ROWS_MAX = 20;

const restMsOf = ({ examined }: BatchJobs): number => examined * REST_MS_PER_JOB;
const found = new Asked<BatchJobs>(REFRESH_MS, restMsOf);

export function showBatch(_view: unknown, context: PageContext): Part {
  const { name } = context.place;
  const fetched = context.fetched as BatchRow | Refused | undefined;
  if (fetched !== undefined && "status" in fetched)
    return html`<div class="title"><h1>${name}</h1></div>
      <section class="card">${empty(
        fetched.status === 404
          ? "There is no such batch: it was never opened, or the server has forgotten it. It forgets a complete batch after a day, or after its keep."
          : fetched.detail,
        html`<p><a href="#/batches">All batches</a></p>`,
      )}</section>`;
  // The last answer may be about another batch.
  if (fetched?.name !== name)
    return html`<div class="title"><h1>${name}</h1></div><section class="card"><p class="quiet">…</p></section>`;
  const [tone, sign, words] = stateOf(fetched);
  const jobs = found.last(`${fetched.number}`, () => jobsOfBatch(fetched, get), context.redraw);
  return html`
    <div class="title">
      <h1>${name}</h1>
      <span class="badge ${tone}"><span aria-hidden="true">${sign}</span> ${words}</span>
      ${actions(fetched, context)}
    </div>
    ${notice(fetched)}
    <dl class="tiles">
      ${tile("members", exact(fetched.members))} ${tile("open", exact(fetched.open))} ${tile("done", exact(fetched.done))}
      ${tile("failed", html`<span class=${fetched.failed > 0 ? "buried" : ""}>${exact(fetched.failed)}</span>`)}
      ${tile("buried", html`<span class=${fetched.buried > 0 ? "buried" : ""}>${exact(fetched.buried)}</span>`)}
      ${tile("waiting jobs", exact(fetched.waiting))}
    </dl>
    <section class="card" aria-label="Progress">
      ${progress(fetched)}
      ${facts([
        ["opened", html`${ago(fetched.age)} ago`],
        ["number", exact(fetched.number)],
        ...(fetched.forgetsIn === null
          ? []
          : [["forgotten in", duration(fetched.forgetsIn)] as [string, string]]),
      ])}
    </section>
    ${jobs === undefined ? pending(fetched) : jobCards(fetched, jobs)}
  `;
}

function actions({ name, state }: BatchRow, { act, may }: PageContext): Part {
  const buttons = html`
    ${state === "open" && may("put") ? html`<button class="button" type="button" @click=${() => act((all) => all.commitBatch(name))}>Commit…</button>` : nothing}
    ${may("manage") ? html`<button class="button bad" type="button" @click=${() => act((all) => all.cancelBatch(name))}>Cancel…</button>` : nothing}`;
  const isUnderWay = state === "open" || state === "committed";
  return isUnderWay && (may("put") || may("manage"))
    ? html`<div class="actions">${folded("Actions", buttons)}</div>`
    : nothing;
}

/** States what a person must do for the batch, or how it will end. */
function notice({ state, buried, failed, waiting }: BatchRow): Part {
  if (state === "complete" || state === "cancelled") return nothing;
  if (buried > 0)
    return html`<p class="notice" role="status">${exact(buried)} of its members ${buried === 1 ? "is" : "are"} buried: the batch can't complete until somebody kicks or deletes ${buried === 1 ? "it" : "them"}. A deleted member counts as failed.</p>`;
  if (failed > 0 && waiting > 0)
    return html`<p class="notice" role="status">${exact(failed)} of its members ${failed === 1 ? "has" : "have"} failed. When the batch is complete, jobs that wait for its success will be buried.</p>`;
  return nothing;
}

const pending = (batch: BatchRow): Part =>
  html`<section class="card"><p class="quiet">${found.hasFailed(`${batch.number}`) ? "Its jobs could not be loaded. The page keeps trying." : "…"}</p></section>`;

const isDead = ({ death }: JobRow): boolean => death !== null;

function jobCards(batch: BatchRow, jobs: BatchJobs): Part {
  const { members, waiting, isWhole } = jobs;
  const troubled = members.filter((job) => isDead(job) || job.state === "buried");
  return html`${batch.open + batch.failed > 0 ? troubledCard(troubled, isWhole ? batch.failed : 0) : nothing}
    ${members.length === 0 ? nothing : tubesCard(batch, members)} ${batch.waiting > 0 ? waitingCard(batch, waiting) : nothing}
    ${restMsOf(jobs) < REFRESH_MS ? nothing : html`<p class="quiet">The server examines ${exact(jobs.examined)} jobs for this list, so it is refreshed only every ${duration(Math.round((REFRESH_MS + restMsOf(jobs)) / 1000))}. The numbers above are always up to date.</p>`}
    ${isWhole ? nothing : html`<p class="quiet">Not all of its jobs are listed: there are too many, or the search reached its limit. The numbers above count all.</p>`}`;
}

/** Failed members that died still exist as jobs; other failed members don't. */
function troubledCard(jobs: readonly JobRow[], failed: number): Part {
  const gone = Math.max(0, failed - jobs.filter(isDead).length);
  if (jobs.length === 0 && gone === 0) return nothing;
  const rows = jobs.slice(0, ROWS_MAX);
  return html`<section class="card" aria-labelledby="troubled">
    <h2 id="troubled">Failed and buried members</h2>
    ${rows.length === 0 ? nothing : jobTable("Failed and buried members", "why", rows, whyOf)}
    ${jobs.length > rows.length ? html`<p class="quiet">${exact(jobs.length - rows.length)} more.</p>` : nothing}
    ${gone === 0 ? nothing : html`<p class="quiet">${exact(gone)} failed ${gone === 1 ? "member is" : "members are"} gone: deleted, cleared or expired.</p>`}
  </section>`;
}

function whyOf(job: JobRow): Part {
  const [last] = job.failures;
  const reason = last === undefined ? nothing : reasonOf(last);
  if (!isDead(job))
    return html`<span class="buried">buried</span>${last === undefined ? nothing : html`: ${reason}`}`;
  return html`<span class="buried">${deathOf(job)}</span>${last === undefined ? nothing : html`: ${reason}`}`;
}

const waitingCard = (
  { waiting }: BatchRow,
  jobs: readonly JobRow[],
): Part => html`<section class="card" aria-labelledby="waiting">
  <h2 id="waiting">Jobs that wait for it <small>${jobsInWords(waiting)}</small></h2>
  ${jobTable("Jobs that wait for it", "becomes ready", jobs.slice(0, ROWS_MAX), ({ waitsForAny }) => html`${waitsForAny ? "when the batch is complete" : "if no member fails"}`)}
  ${waiting > ROWS_MAX ? html`<p class="quiet">${exact(waiting - ROWS_MAX)} more.</p>` : nothing}
</section>`;

const jobTable = (
  caption: string,
  label: string,
  rows: readonly JobRow[],
  cell: (job: JobRow) => Part,
): Part => html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}, as a table">
  <table class="cards">
    <caption class="hidden">${caption}</caption>
    <thead>
      <tr><th scope="col">job</th><th scope="col" class="left">tube</th><th scope="col" class="left">${label}</th><th scope="col">put</th></tr>
    </thead>
    <tbody>${rows.map(
      (job) => html`<tr>
        <th scope="row"><a href="#/jobs/${job.id}">${job.id}</a></th>
        <td class="left rest-line" data-label="in">${tubeAnchor(job.tube)}</td>
        <td class="left rest-line pieces" data-label=${label === "why" ? nothing : label}>${cell(job)}</td>
        <td data-label="put">${ago(job.age)} ago</td>
      </tr>`,
    )}</tbody>
  </table>
</div>`;

/** Counts the existing members by tube and state, dead ones separately. */
function tubesCard({ name }: BatchRow, members: readonly JobRow[]): Part {
  const tubes = Map.groupBy(members, ({ tube }) => tube);
  const rows = [...tubes].sort(([, a], [, b]) => b.length - a.length);
  const link = (tube: string, state: string): string =>
    `${tubeLink(tube)}?${new URLSearchParams({ state, batch: name })}`;
  const cell = (tube: string, jobs: readonly JobRow[], state: string): Part => {
    const count = jobs.filter((job) => job.state === state).length;
    return count === 0 ? html`0` : html`<a href=${link(tube, state)}>${exact(count)}</a>`;
  };
  return html`<section class="card" aria-labelledby="tubes">
    <h2 id="tubes">Members by tube <small>without those that are done</small></h2>
    <div class="scroll names" tabindex="0" role="region" aria-label="Members by tube and state">
      <table class="cards">
        <caption class="hidden">Members by tube and state</caption>
        <thead><tr><th scope="col">tube</th>${STATES.map((state) => html`<th scope="col">${state.name}</th>`)}<th scope="col" title="Jobs among these that have failed for good">dead</th></tr></thead>
        <tbody>${rows.slice(0, ROWS_MAX).map(
          ([tube, jobs]) => html`<tr>
            <th scope="row" title=${tube}><a href=${tubeLink(tube)}>${tube}</a></th>
            ${STATES.map((state) => html`<td data-label=${state.name} class=${jobs.some((job) => job.state === state.name) ? "" : "zero"}>${cell(tube, jobs, state.name)}</td>`)}
            <td data-label="dead" class=${jobs.some(isDead) ? "buried" : "zero"}>${exact(jobs.filter(isDead).length)}</td>
          </tr>`,
        )}</tbody>
      </table>
    </div>
    ${rows.length > ROWS_MAX ? html`<p class="quiet">${exact(rows.length - ROWS_MAX)} more tubes.</p>` : nothing}
  </section>`;
}
