// Tube page: numbers, charts, and a list of jobs with actions for the selected ones.

import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import type { JobFilter } from "../parts/bulk.ts";
import { columnChoice, shownColumns } from "../parts/columns.ts";
import { bytes, duration, exact, rate, short } from "../parts/format.ts";
import { heldList } from "../parts/held-list.ts";
import type { Chart, PageContext } from "../parts/page-context.ts";
import {
  ago,
  chartPlace,
  choiceCell,
  choiceHead,
  empty,
  facts,
  folded,
  type Part,
  STATES,
  stateTiles,
  tile,
  tubePath,
} from "../parts/parts.ts";
import type { JobRow, JobsPage, Refused, TubeView } from "../parts/view-types.ts";

const HISTORY_SECONDS = 3000;

export function showTube(view: TubeView, context: PageContext): Part {
  const { name } = context.place;
  if (view.tube === null)
    return html`<div class="title"><h1>${name}</h1>
        <div class="actions">${context.may("put") ? putButton(name, context) : nothing}</div>
      </div>
      <section class="card">
        ${empty("There is no such tube now: nobody uses or watches it, and it has no jobs. It comes back with its next job.")}
      </section>`;
  const { jobs, rates, pause, watchers, waiters, users, bodyBytes, totals } = view.tube;
  const state = stateOf(context);
  return html`
    <div class="title">
      <h1>${name}</h1>
      ${pause === null ? nothing : html`<span class="delayed">◷ paused, ${duration(pause.timeLeft)} left</span>`}
      ${tubeActions(name, pause !== null, context)}
    </div>
    <dl class="tiles">${stateTiles(jobs)} ${tile("oldest ready", ago(view.tube.oldestReady))}</dl>
    <section class="card" aria-label="Figures">
      ${facts([
        ["in, out", `${rate(rates["puts"] ?? 0)} /s, ${rate(rates["deletes"] ?? 0)} /s`],
        ["timeouts", `${rate(rates["timeouts"] ?? 0)} /s, ${exact(totals["timeouts"] ?? 0)} in all`],
        ["watching, waiting", `${exact(watchers)}, ${exact(waiters)}`],
        ["using", exact(users)],
        ["bodies", bytes(bodyBytes)],
        ["put in all", exact(totals["puts"] ?? 0)],
      ])}
    </section>
    ${charts(name, context)}
    <section class="card" aria-labelledby="jobs">
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
        ${context.may("bodies") ? textFilter(context) : nothing}
      </div>
      ${moreFilters(context, state)}
      ${jobList(context.fetched as JobsPage | Refused | undefined, context)}
    </section>
  `;
}

const stateOf = (context: PageContext): keyof TubeJobs =>
  (context.place.query.get("state") ?? "ready") as keyof TubeJobs;
type TubeJobs = Record<(typeof STATES)[number]["name"], number>;

const putButton = (name: string, { act }: PageContext): Part =>
  html`<button class="button main" type="button" @click=${() => act((actions) => actions.putJob(name))}>Put a job…</button>`;

function tubeActions(name: string, isPaused: boolean, context: PageContext): Part {
  const { may, act } = context;
  const filter = filterOf(context);
  const manage = folded(
    "Actions",
    html`
    ${
      isPaused
        ? html`<button class="button" type="button" id="pause" @click=${() => act((actions) => actions.resumeTube(name))}>Resume…</button>`
        : html`<button class="button" type="button" id="pause" @click=${() => act((actions) => actions.pauseTubes([name]))}>Pause…</button>`
    }
    <button class="button" type="button" @click=${() => act((actions) => actions.kickTubes([name], filter))}>Kick…</button>
    <button class="button" type="button" @click=${() => act((actions) => actions.moveTubes([name], filter))}>Move…</button>
    <button class="button bad" type="button" @click=${() => act((actions) => actions.clearTubes([name], filter))}>Clear…</button>
  `,
  );
  return html`<div class="actions">${may("put") ? putButton(name, context) : nothing} ${may("manage") ? manage : nothing}</div>`;
}

// --- Charts ---

function charts(name: string, context: PageContext): Part {
  const line = (series: string, colour: string, dash?: readonly number[]) => ({
    series,
    label: series,
    colour,
    isRate: false,
    ...(dash === undefined ? {} : { dash }),
  });
  const of = (id: string, title: string, lines: Chart["lines"]): Chart => {
    const series = lines.map((each) => each.series).join();
    const url = tubePath(name, "history", `seconds=${HISTORY_SECONDS}&series=${series}`);
    return { id, title, url, lines, span: "The last 50 minutes", spanSeconds: HISTORY_SECONDS };
  };
  const states = [
    line("ready", "ready"),
    line("reserved", "reserved", [8, 4]),
    line("delayed", "delayed", [3, 3]),
    line("buried", "buried", [12, 3, 3, 3]),
  ];
  const flow = [
    { ...line("puts", "ready"), label: "in /s", isRate: true },
    { ...line("deletes", "reserved", [8, 4]), label: "out /s", isRate: true },
    { ...line("timeouts", "buried", [3, 3]), label: "timeouts /s", isRate: true },
  ];
  return html`<div class="two">
    ${chartCard("states-chart", "Jobs by state")} ${chartCard("flow-chart", "Jobs a second")}
    ${context.charts([of("states-chart", "Jobs by state", states), of("flow-chart", "Jobs a second", flow)])}
  </div>`;
}

const chartCard = (
  id: string,
  title: string,
): Part => html`<section class="card" aria-labelledby="${id}-title">
  <h2 id="${id}-title">${title}</h2>
  ${chartPlace(id)}
</section>`;

// --- Jobs ---

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
    ${state === "reserved" ? nothing : orders} ${numberFilter(context, "ageFrom", "older than, s")}
    ${numberFilter(context, "priFrom", "pri from")} ${numberFilter(context, "priTo", "to")}
    ${columnChoice("jobs", JOB_COLUMNS, context.redraw)}
  </div>`;
}

const WHY_NONE: Readonly<Record<string, string>> = {
  ready: "All that was put is with workers, waits for its time, or is done.",
  reserved: "No worker is at work on one: a job is reserved from reserve to delete, release or bury.",
  delayed: "A job is delayed when it is put or released with a delay.",
  buried: "Workers bury what they cannot do; it stays until somebody kicks or deletes it.",
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
const field = (name: string) => (job: JobRow) => exact(Number(job[name]));

const JOB_COLUMNS: readonly JobColumn[] = [
  usual("priority", field("pri"), false, "pri"),
  usual("age", ({ age }) => ago(age), false),
  usual(
    "time left",
    ({ state, timeLeft }) => (state === "ready" || state === "buried" ? "–" : duration(timeLeft)),
    true,
    "left",
  ),
  usual("reserves", field("reserves")),
  usual("timeouts", field("timeouts")),
  usual("bytes", field("bytes")),
  unusual("time to run", ({ ttr }) => duration(Number(ttr))),
  unusual("releases", field("releases")),
  unusual("buries", field("buries")),
  unusual("kicks", field("kicks")),
];

function jobList(fetched: JobsPage | Refused | undefined, context: PageContext): Part {
  if (fetched === undefined) return html`<p class="quiet">…</p>`;
  if ("status" in fetched) return empty(fetched.detail);
  const { list: page, heldSeconds } = heldList(`${context.place.name}?${context.place.query}`, fetched);
  const state = stateOf(context);
  const isFiltered = FILTERS.some((key) => context.place.query.has(key));
  if (page.items.length === 0 && page.cursor === null)
    return isFiltered
      ? empty(`No ${state} job here is like that.`)
      : empty(`No ${state} job here. ${WHY_NONE[state] ?? ""}`);
  if (page.items.length === 0 && page.cursor !== null) return searching(page.cursor, page.examined, context);
  const ids = page.items.map(({ id }) => `${id}`);
  const mayChoose = context.may("manage");
  const columns = shownColumns("jobs", JOB_COLUMNS);
  return html`${mayChoose ? selection(context, page) : nothing}
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
              <td class="left rest">${bodyStart(job)}</td>
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

/** Nothing was found so far, so the next page is requested automatically. */
function searching(cursor: string, examined: number, context: PageContext): Part {
  queueMicrotask(() => context.go({ cursor }));
  return html`<p class="quiet" aria-live="polite">Looking on, behind ${exact(examined)} jobs…</p>`;
}

const FILTERS = ["text", "ageFrom", "priFrom", "priTo"];

/** Returns the filter of the list for the bulk actions, undefined if there is none. */
function filterOf({ place: { query } }: PageContext): JobFilter | undefined {
  const [text, ageFrom, priFrom, priTo] = FILTERS.map((key) => query.get(key));
  const words = [
    text == null ? [] : [`“${text}” in the body`],
    ageFrom == null ? [] : [`an age of ${ageFrom} s or more`],
    priFrom == null ? [] : [`a priority from ${priFrom}`],
    priTo == null ? [] : [`a priority up to ${priTo}`],
  ].flat();
  if (words.length === 0) return undefined;
  const where = Object.fromEntries(
    FILTERS.flatMap((key) => {
      const value = query.get(key);
      return value === null ? [] : [[key, key === "text" ? value : Number(value)]];
    }),
  );
  return { where, words: `with ${words.join(" and ")}` };
}

/** Shows the actions for the selected jobs, or for all that match the filters. */
function selection(context: PageContext, { items }: JobsPage): Part {
  const { name } = context.place;
  const state = stateOf(context);
  const some = [...context.selected];
  const filter = filterOf(context);
  const isAll = some.length === 0;
  // Actions on the whole tube have their own buttons above.
  if (isAll && (filter === undefined || items.length === 0)) return nothing;
  const jobs = isAll ? { filter } : { ids: some.map(Number) };
  const button = (label: string, isBad: boolean, open: Parameters<PageContext["act"]>[0]): Part =>
    html`<button class="button ${isBad ? "bad" : ""}" type="button" @click=${() => context.act(open)}>${label}</button>`;
  const of = { tube: name, state, ...jobs };
  return html`<div class="bar chosen" role="group" aria-label="What to do with jobs">
    <span aria-live="polite">${isAll ? `All ${state} jobs ${filter!.words}` : `${exact(some.length)} selected`}:</span>
    ${state === "buried" || state === "delayed" ? button("Kick…", false, (actions) => actions.kickJobs(of)) : nothing}
    ${state === "reserved" ? nothing : button("Move…", false, (actions) => actions.moveJobs(of))}
    ${state === "reserved" ? nothing : button("Update…", false, (actions) => actions.updateJobs(of))}
    ${button("Delete…", true, (actions) => actions.deleteJobs(of))}
    ${isAll ? nothing : html`<button class="button" type="button" @click=${() => context.select(some, false)}>None</button>`}
  </div>`;
}

const SHOWN_CHARACTERS = 120;

function bodyStart({ body, bodyBase64 }: JobRow): Part {
  if (body === undefined)
    return html`<span class="quiet">${bodyBase64 === undefined ? "not shown" : "bytes that are no text"}</span>`;
  return html`<span class="mono">${body.slice(0, SHOWN_CHARACTERS)}${body.length > SHOWN_CHARACTERS ? "…" : ""}</span>`;
}
