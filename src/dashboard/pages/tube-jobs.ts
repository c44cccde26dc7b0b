// List of a tube's jobs by state, filtered, with actions for the selected ones or for all that
// match.

import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import type { ChosenJobs } from "../parts/bulk.ts";
import { columnChoice, shownColumns } from "../parts/columns.ts";
import { failureLine } from "../parts/failures.ts";
import { duration, exact, short } from "../parts/format.ts";
import { heldList } from "../parts/held-list.ts";
import { bodyStart, searching } from "../parts/job-cells.ts";
import { matchCount } from "../parts/match-count.ts";
import type { PageContext } from "../parts/page-context.ts";
import { ago, choiceCell, choiceHead, empty, type Part, STATES } from "../parts/parts.ts";
import type { JobFilter } from "../parts/request.ts";
import type { JobCounts, JobRow, JobsPage, Refused } from "../parts/view-types.ts";
import { batchLink } from "./batch-parts.ts";

const stateOf = (context: PageContext): keyof JobCounts =>
  (context.place.query.get("state") ?? "ready") as keyof JobCounts;

export function jobsCard(jobs: JobCounts, context: PageContext): Part {
  const state = stateOf(context);
  return html`<section class="card" aria-labelledby="jobs">
    <h2 id="jobs">Jobs</h2>
    <div class="bar" role="group" aria-label="State of the jobs">
      ${STATES.map(
        ({ name: each, sign }) => html`<button
          type="button"
          class="button"
          aria-pressed=${state === each}
          @click=${() => context.go({ state: each === "ready" ? "" : each, cursor: "", order: "" })}
        >
          <span class=${each} aria-hidden="true">${sign}</span>&nbsp;${each} ${short(jobs[each])}
        </button>`,
      )}
    </div>
    ${moreFilters(context, state)}
    ${jobList(context.fetched as JobsPage | Refused | undefined, jobs[state], context)}
  </section>`;
}

const textFilter = (context: PageContext): Part => html`<label class="grow">
  <span class="hidden">Text in the body</span>
  <input
    type="search"
    placeholder="text in the body"
    maxlength="200"
    .value=${context.place.query.get("text") ?? ""}
    @input=${({ target }: Event) => context.goSoon(() => ({ text: (target as HTMLInputElement).value, cursor: "" }))}
  >
</label>`;

/** Returns a filter for a number in the page's address. Invalid input removes the filter. */
function numberFilter(context: PageContext, key: string, label: string): Part {
  const change = ({ target }: Event): void =>
    context.goSoon(() => {
      const { value } = target as HTMLInputElement;
      return { [key]: /^\d+$/.test(value) ? value : "", cursor: "" };
    });
  return html`<label class="small">
    ${label}
    <input type="number" min="0" max="4294967295" .value=${context.place.query.get(key) ?? ""} @input=${change}>
  </label>`;
}

function moreFilters(context: PageContext, state: string): Part {
  const isNext = context.place.query.get("order") === "next";
  const orders = html`<label class="small">
    order
    <select @change=${(event: Event) => context.go({ order: (event.target as HTMLSelectElement).value, cursor: "" })}>
      <option value="" ?selected=${!isNext}>by id, all</option>
      <option value="next" ?selected=${isNext}>next first</option>
    </select>
  </label>`;
  return html`<div class="bar">
    ${context.may("bodies") ? textFilter(context) : nothing} ${state === "reserved" ? nothing : orders} ${numberFilter(context, "ageFrom", "older than, s")}
    ${numberFilter(context, "priFrom", "pri from")} ${numberFilter(context, "priTo", "to")}
    <label class="choice small">
      <input type="checkbox" .checked=${context.place.query.has("dead")}
        @change=${({ target }: Event) => context.go({ dead: (target as HTMLInputElement).checked ? "true" : "", cursor: "" })}>dead only
    </label>
    ${columnChoice("jobs", JOB_COLUMNS, context.redraw)}
  </div>
  ${batchFilter(context)}`;
}

/** Set by links from the page of a batch. */
function batchFilter({ place, go }: PageContext): Part {
  const name = place.query.get("batch");
  if (name === null) return nothing;
  return html`<div class="bar">
    <span>Only jobs of the batch <a href=${batchLink(name)}>${name}</a></span>
    <button class="button" type="button" @click=${() => go({ batch: "", cursor: "" })}>Remove this filter</button>
  </div>`;
}

const WHY_NONE: Readonly<Record<string, string>> = {
  ready: "All jobs are with workers, wait for their time, or are done.",
  reserved: "No worker holds a job: a job is reserved from reserve to delete, release or bury.",
  delayed: "A job is delayed when it is put or released with a delay.",
  buried: "Workers bury jobs that they can't do; these stay until somebody kicks or deletes them.",
};

interface JobColumn {
  readonly key: string;
  readonly name: string;
  readonly isUsual: boolean;
  readonly label: string;
  readonly optional: boolean;
  readonly cell: (job: JobRow) => string | Part;
}

const usual = (name: string, cell: JobColumn["cell"], optional = true, label = name): JobColumn => ({
  ...{ key: name, name, isUsual: true, label, optional, cell },
});
const unusual = (name: string, cell: JobColumn["cell"]): JobColumn => ({
  ...usual(name, cell),
  isUsual: false,
});
const field =
  (name: "pri" | "reserves" | "timeouts" | "bytes" | "releases" | "buries" | "kicks" | "disconnects") =>
  (job: JobRow) =>
    exact(job[name]);

const JOB_COLUMNS: readonly JobColumn[] = [
  usual("priority", field("pri"), false, "pri"),
  usual("age", ({ age }) => ago(age), false),
  usual(
    "time left",
    ({ state, timeLeft, waitsFor }) =>
      state === "ready" || state === "buried" || waitsFor !== null ? "–" : duration(timeLeft),
    true,
    "left",
  ),
  usual("reserves", field("reserves")),
  usual("timeouts", field("timeouts")),
  usual("bytes", field("bytes")),
  unusual("time to run", ({ ttr }) => duration(ttr)),
  unusual("releases", field("releases")),
  unusual("buries", field("buries")),
  unusual("kicks", field("kicks")),
  unusual("disconnects", field("disconnects")),
];

function jobList(fetched: JobsPage | Refused | undefined, jobsOfState: number, context: PageContext): Part {
  if (fetched === undefined) return html`<p class="quiet">…</p>`;
  if ("status" in fetched) return empty(fetched.detail);
  const { list: page, heldSeconds } = heldList(context.fetchedFrom, fetched);
  const state = stateOf(context);
  const isFiltered = FILTERS.some((key) => context.place.query.has(key));
  if (page.items.length === 0 && page.cursor === null)
    return isFiltered
      ? empty(`No ${state} job matches.`)
      : empty(`No ${state} job here. ${WHY_NONE[state] ?? ""}`);
  if (page.items.length === 0 && page.cursor !== null) return searching(page.cursor, page.examined, context);
  const ids = page.items.map(({ id }) => `${id}`);
  const mayChoose = context.may("manage");
  const columns = shownColumns("jobs", JOB_COLUMNS);
  return html`${mayChoose ? selection(context, page, jobsOfState) : nothing}
    <div class="scroll" tabindex="0" role="region" aria-label="List of jobs">
      <table class="cards">
        <caption class="hidden">Jobs of ${context.place.name}, ${state}</caption>
        <thead>
          <tr>
            ${mayChoose ? choiceHead(ids, context) : nothing}
            <th scope="col">id</th>
            ${columns.map(({ label, optional }) => html`<th scope="col" class=${optional ? "optional" : ""}>${label}</th>`)}
            <th scope="col" class="left">body</th>
          </tr>
        </thead>
        <tbody>
          ${repeat(
            page.items,
            ({ id }) => id,
            (job) => html`<tr>
              ${mayChoose ? choiceCell(`${job.id}`, `Job ${job.id}`, context) : nothing}
              <th scope="row"><a href="#/jobs/${job.id}">${job.id}</a></th>
              ${columns.map(({ cell, optional, label }) => html`<td data-label=${label} class=${optional ? "optional" : ""}>${cell(job)}</td>`)}
              <td class="left rest">${bodyStart(job)}${failureLine(job)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    <div class="bar">
      <span class="quiet">${exact(page.examined)} looked at</span>
      ${heldSeconds === 0 ? nothing : html`<span class="quiet">the list is ${heldSeconds} s old</span>`}
      ${
        page.cursor === null
          ? nothing
          : html`<button class="button" type="button" @click=${() => context.go({ cursor: page.cursor! })}>More</button>`
      }
      ${
        context.place.query.has("cursor")
          ? html`<button class="button" type="button" @click=${() => context.go({ cursor: "" })}>From the start</button>`
          : nothing
      }
    </div>`;
}

const FILTERS = ["text", "ageFrom", "priFrom", "priTo", "dead", "batch"] as const;

/** Returns the filter of the list for the bulk actions, undefined if there is none. */
export function filterOf({ place: { query } }: PageContext): JobFilter | undefined {
  const [text, ageFrom, priFrom, priTo, dead, batch] = FILTERS.map((key) => query.get(key));
  const words = [
    text == null ? [] : [`“${text}” in the body`],
    ageFrom == null ? [] : [`an age of ${ageFrom} s or more`],
    priFrom == null ? [] : [`a priority from ${priFrom}`],
    priTo == null ? [] : [`a priority up to ${priTo}`],
  ].flat();
  const which = [
    words.length === 0 ? [] : [`with ${words.join(" and ")}`],
    dead == null ? [] : [DEAD],
    batch == null ? [] : [`of the batch ${batch}`],
  ].flat();
  if (which.length === 0) return undefined;
  const value = {
    text: String,
    ageFrom: Number,
    priFrom: Number,
    priTo: Number,
    dead: () => true,
    batch: String,
  };
  const where = Object.fromEntries(
    FILTERS.flatMap((key) => (query.has(key) ? [[key, value[key](query.get(key))]] : [])),
  );
  return { where, words: which.join(", ") };
}

const DEAD = "that are dead";

/** Stands for ids: all jobs of the state that match the filter. */
const ALL = "*";

/** Shows the actions for the selected jobs, or for all that match the filters. */
function selection(context: PageContext, { items, cursor }: JobsPage, jobsOfState: number): Part {
  const { name, query } = context.place;
  const state = stateOf(context);
  const filter = filterOf(context);
  const { selected } = context;
  const isAll = selected.size === 0 || selected.has(ALL);
  // Actions on the whole tube have their own buttons above.
  if (selected.size === 0 && (filter === undefined || items.length === 0)) return nothing;
  const isWhole = cursor === null && !query.has("cursor");
  const count = (): number | undefined =>
    filter === undefined
      ? jobsOfState
      : isWhole
        ? items.length
        : matchCount(name, state, filter, context.redraw);
  const of = { tube: name, state, ...(isAll ? { filter } : { ids: [...selected].map(Number) }) };
  return html`<div class="bar chosen" role="group" aria-label="Actions on jobs">
    <span aria-live="polite">${isAll ? allInWords(state, filter, count()) : `${exact(selected.size)} selected`}:</span>
    ${isAll || isWhole ? nothing : allButton(context, filter === undefined ? `all ${exact(jobsOfState)}` : "all that match")}
    ${jobButtons(of, context)}
    ${selected.size === 0 ? nothing : html`<button class="button" type="button" @click=${() => context.select([...selected], false)}>None</button>`}
  </div>`;
}

function jobButtons(of: ChosenJobs, { act }: PageContext): Part {
  const button = (label: string, isBad: boolean, open: Parameters<PageContext["act"]>[0]): Part =>
    html`<button class="button ${isBad ? "bad" : ""}" type="button" @click=${() => act(open)}>${label}</button>`;
  const mayMove = of.state !== "reserved";
  return html`${of.state === "buried" || of.state === "delayed" ? button("Kick…", false, (actions) => actions.kickJobs(of)) : nothing}
    ${mayMove ? button("Move…", false, (actions) => actions.moveJobs(of)) : nothing}
    ${mayMove ? button("Update…", false, (actions) => actions.updateJobs(of)) : nothing}
    ${button("Delete…", true, (actions) => actions.deleteJobs(of))}`;
}

function allInWords(state: string, filter: JobFilter | undefined, count: number | undefined): string {
  const all = `All ${state} jobs${filter === undefined ? "" : ` ${filter.words}`}`;
  return count === undefined ? `${all} (counting…)` : `${all}, ${exact(count)}`;
}

function allButton({ selected, select }: PageContext, words: string): Part {
  const all = (): void => {
    select([...selected], false);
    select([ALL], true);
  };
  return html`<button class="button" type="button" @click=${all}>Select ${words}</button>`;
}
