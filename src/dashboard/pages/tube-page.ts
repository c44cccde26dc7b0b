// Tube page: numbers, charts, and a list of jobs with actions for the selected ones.

import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { SETTINGS, type Setting } from "../../schema/setting.ts";
import { POLICY_COUNTS } from "../../schema/tube.ts";
import type { ChosenJobs } from "../parts/bulk.ts";
import { Asked } from "../parts/dialog.ts";
import {
  ALL_TUBES,
  ago,
  agoSince,
  chartPlace,
  choiceCell,
  choiceHead,
  empty,
  facts,
  folded,
  isLog,
  nameOf,
  type Part,
  STATES,
  saidLine,
  scaleButton,
  stateTiles,
  tile,
  tubeAnchor,
  tubePath,
} from "../parts/elements.ts";
import { type FailureGroup, failureLine, groupsOf, reasonOf, workersInWords } from "../parts/failures.ts";
import { bytes, duration, exact, jobs as jobsInWords, rate, short, time } from "../parts/format.ts";
import { bodyStart, columnChoice, heldList, pager, searching, shownColumns } from "../parts/lists.ts";
import type { Chart, PageContext } from "../parts/page-context.ts";
import { type JobFilter, send, sendBulk } from "../parts/request.ts";
import { type InEffect, pausedBy, valueInWords } from "../parts/setting-fields.ts";
import type {
  FinishedRow,
  JobCounts,
  JobRow,
  JobsPage,
  ListPage,
  Refused,
  TubeRow,
  TubeTimes,
} from "../parts/view-types.ts";
import { batchLink } from "./batch-page.ts";

// Number of a tube's jobs that match a filter, counted by a dry run while the filter is shown.

/** Age from which a shown count is refreshed, ms. */
const RENEW_MS = 10_000;

/** Only one filter is shown at a time. */
const counted = new Asked<number>(RENEW_MS);

/** Returns the last count of this filter; undefined until the first one arrives. */
function matchCount(
  tube: string,
  state: string,
  { where }: JobFilter,
  redraw: () => void,
): number | undefined {
  const count = async (): Promise<number> => {
    const asked = { states: [state], where, dryRun: true };
    return (await sendBulk(tubePath(tube, "clear"), asked, () => {})).affected;
  };
  return counted.last(JSON.stringify([tube, state, where]), count, redraw);
}

// Reasons why jobs of a tube failed, each with the number of jobs, its first time and its workers.

const REFRESH_MS = 15_000;
/** The first jobs that were tried stand for all. The request leaves out their bodies. */
const SAMPLE = 500;
const ROWS_MAX = 8;

const tried = new Asked<JobsPage>(REFRESH_MS);

/** Returns nothing for a tube in which no job has failed. */
function tubeFailures({ name, holdsDead, jobs, totals }: TubeRow, context: PageContext): Part {
  const failed = (["timeouts", "disconnects", "releases", "buries"] as const).some((key) => totals[key] > 0);
  if (!holdsDead && !failed && jobs.buried === 0) return nothing;
  const page = tried.last(name, () => triedJobs(name), context.redraw);
  const failures = page?.items.filter((job) => job.failures.length > 0) ?? [];
  if (page === undefined || failures.length === 0) return nothing;
  const groups = groupsOf(failures, ({ state }) => state, reasonOfLast);
  return html`<section class="card" aria-labelledby="why">
    <h2 id="why">Why jobs failed <small>${page.cursor === null ? "the last failure of each" : `of the first ${exact(page.items.length)} that were tried`}</small></h2>
    ${table(groups.slice(0, ROWS_MAX))}
    ${groups.length > ROWS_MAX ? html`<p class="quiet">${exact(groups.length - ROWS_MAX)} more reasons.</p>` : nothing}
  </section>`;
}

const reasonOfLast = ({ failures }: JobRow): string => reasonOf(failures[0]!);

const table = (
  groups: readonly FailureGroup[],
): Part => html`<div class="scroll" tabindex="0" role="region" aria-label="Why jobs failed">
  <table class="cards">
    <caption class="hidden">Reasons for failures, the most frequent first</caption>
    <thead>
      <tr>
        <th scope="col" class="left">reason</th><th scope="col">jobs</th><th scope="col" class="left">now</th><th scope="col">last</th>
        <th scope="col">first</th><th scope="col" class="left">workers</th>
      </tr>
    </thead>
    <tbody>
      ${groups.map(
        ({ label, reason, jobs, last, first, workers }) => html`<tr>
          <th scope="row" class="reason" title=${reason}>${reason}</th>
          <td data-label="jobs">${exact(jobs)}</td>
          <td class="left"><span class=${label}>${label}</span></td>
          <td data-label="last">${ago(last)} ago</td>
          <td data-label="first">${ago(first)} ago</td>
          <td class="left rest-line cut" data-label="workers" title=${[...workers].join(", ")}>${workersInWords(workers)}</td>
        </tr>`,
      )}
    </tbody>
  </table>
</div>`;

async function triedJobs(tube: string): Promise<JobsPage> {
  const asked = new URLSearchParams({ reservesFrom: "1", limit: `${SAMPLE}`, bodyMax: "0" });
  return (await send("GET", tubePath(tube, "jobs", `${asked}`))) as JobsPage;
}

// List of a tube's jobs by state, filtered, with actions for the selected ones or for all that
// match.

const stateOf = (context: PageContext): keyof JobCounts =>
  (context.place.query.get("state") ?? "ready") as keyof JobCounts;

/** Stands for a state in the address of the page: the ends of jobs, which the tube keeps. */
const FINISHED = "finished";

const showsFinished = ({ place }: PageContext): boolean => place.query.get("state") === FINISHED;

function jobsCard(jobs: JobCounts, keepsEnds: boolean, context: PageContext): Part {
  const finished = showsFinished(context);
  const state = finished ? FINISHED : stateOf(context);
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
      ${
        keepsEnds || finished
          ? html`<button class="button" type="button" aria-pressed=${finished} @click=${() => context.go({ state: FINISHED, cursor: "", order: "" })}>finished</button>`
          : nothing
      }
    </div>
    ${
      finished
        ? finishedList(context)
        : html`${moreFilters(context, state)}
          ${jobList(context.fetched as JobsPage | Refused | undefined, jobs[stateOf(context)], context)}`
    }
  </section>`;
}

/** The last jobs of the tube that have ended. */
function finishedList(context: PageContext): Part {
  const fetched = context.fetched as ListPage<FinishedRow> | Refused | undefined;
  if (fetched === undefined) return html`<p class="quiet">…</p>`;
  if ("status" in fetched) return empty(fetched.detail);
  const { list } = heldList(context.fetchedFrom, fetched);
  if (list.items.length === 0)
    return empty(
      "None. The setting “finished jobs to keep” says how many are listed here; a restart empties the list.",
    );
  return html`<div class="scroll heads" tabindex="0" role="region" aria-label="List of finished jobs">
      <table class="cards">
        <caption class="hidden">Finished jobs of ${context.place.name}</caption>
        <thead>
          <tr>
            <th scope="col">id</th><th scope="col" class="left">end</th><th scope="col">ago</th>
            <th scope="col" title="from its last reservation to its end">held</th><th scope="col" class="optional">attempts</th>
            <th scope="col" class="left">worker</th><th scope="col" class="left">why, note, key</th>
          </tr>
        </thead>
        <tbody>
          ${list.items.map(
            ({ id, state, start, end, attempts, worker, ...texts }) => html`<tr>
              <th scope="row"><a href="#/jobs/${id}">${id}</a></th>
              <td class="left" data-label="end">${state}</td>
              <td data-label="ago">${agoSince(end)}</td>
              <td data-label="held">${start === null ? "–" : time((Date.parse(end) - Date.parse(start)) / 1000)}</td>
              <td data-label="attempts" class="optional">${exact(attempts)}</td>
              <td class="left cut" data-label="worker" title=${worker ?? ""}>${worker ?? "–"}</td>
              <td class="left rest">${[texts.reason, texts.note, texts.unique, texts.group].filter((each) => each !== null).join(" · ")}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${pager(list, context)}`;
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
    <span>Only jobs of the batch <a class="name" href=${batchLink(name)} title=${name}>${name}</a></span>
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
  usual("returned by lost connections", field("disconnects"), true, "lost"),
  usual("bytes", field("bytes")),
  unusual("time to run", ({ ttr }) => duration(ttr)),
  unusual("releases", field("releases")),
  unusual("buries", field("buries")),
  unusual("kicks", field("kicks")),
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
    <div class="scroll heads" tabindex="0" role="region" aria-label="List of jobs">
      <table class="cards">
        <caption class="hidden">Jobs of ${context.place.name}, ${state}</caption>
        <thead>
          <tr>
            ${mayChoose ? choiceHead(ids, context) : nothing}
            <th scope="col">id</th>
            ${columns.map(({ name, label, optional }) => html`<th scope="col" class=${optional ? "optional" : ""} title=${name === label ? nothing : name}>${label}</th>`)}
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
              <td class="left rest">${bodyStart(job)}${saidLine(job)}${failureLine(job)}</td>
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

// Settings in effect for a tube, and the effects of its policies so far.

interface SettingsOfTube {
  readonly settings: InEffect;
  readonly details: Readonly<Record<string, number>> | null;
}

function tubeSettings(
  { name: tube, settings, details }: SettingsOfTube & { readonly name: string },
  context: PageContext,
): Part {
  const rows = SETTINGS.flatMap((field): [string, Part][] => {
    const setting = settings[field.name];
    if (setting === undefined) return [];
    const from =
      setting.from === tube ? nothing : html` <span class="quiet">from ${nameOf(setting.from)}</span>`;
    return [[field.label, html`${shownValue(field, setting.value, tube)}${from}`]];
  });
  return html`<section class="card" aria-labelledby="settings">
    <div class="heading">
      <h2 id="settings">Settings <small>in effect for this tube</small></h2>
      ${
        context.may("manage") && context.may(ALL_TUBES)
          ? html`<button class="button" type="button" @click=${() => context.act((actions) => actions.changeSettings(tube, settings))}>Change…</button>`
          : nothing
      }
    </div>
    ${
      rows.length === 0
        ? html`<p class="quiet">None: no limits, and jobs are retried forever.</p>`
        : facts(rows)
    }
    ${details === null ? nothing : counts(details)}
  </section>`;
}

function shownValue(field: Setting, value: number | string, tube: string): Part {
  if (field.kind !== "tube") return html`${valueInWords(field, value)}`;
  // A pattern for all tubes includes the dead-letter tube that it names.
  return value === tube ? html`nowhere: those that die here are buried here` : tubeAnchor(`${value}`);
}

const COUNTED: readonly (readonly [key: string, words: string])[] = [
  ...Object.entries(POLICY_COUNTS),
  ["groups", "groups"],
  ["groupsBlocked", "groups at their limit"],
];

/** Only counts above 0. */
function counts(details: Readonly<Record<string, number>>): Part {
  const said = COUNTED.filter(([key]) => (details[key] ?? 0) > 0).map(
    ([key, words]) =>
      `${exact(details[key]!)} ${details[key] === 1 ? words.replace(/^groups/, "group") : words}`,
  );
  return said.length === 0 ? nothing : html`<p class="quiet">So far: ${said.join(", ")}.</p>`;
}

const HISTORY_SECONDS = 3000;

export function showTube(
  { tube }: { readonly tube: (TubeRow & SettingsOfTube) | null },
  context: PageContext,
): Part {
  const { name } = context.place;
  if (tube === null)
    return html`<div class="title"><h1>${name}</h1>
        <div class="actions">${context.may("put") ? putButton(name, context) : nothing}</div>
      </div>
      <section class="card">
        ${empty("There is no such tube now: no client uses or watches it, and it has no jobs. It comes back with its next job.")}
        ${
          showsFinished(context)
            ? finishedList(context)
            : html`<p><button class="button" type="button" @click=${() => context.go({ state: FINISHED, cursor: "" })}>Its finished jobs</button></p>`
        }
      </section>`;
  const { jobs, rates, watchers, waiters, users, bodyBytes, totals } = tube;
  return html`
    <div class="title">
      <h1>${name}</h1>
      ${tube.pause === null ? nothing : html`<span class="badge delayed"><span aria-hidden="true">◷</span> paused</span>`}
      ${tubeActions(tube, context)}
    </div>
    ${notices(tube)}
    <dl class="tiles">${stateTiles(jobs)} ${tile("oldest ready", ago(tube.oldestReady))} ${emptyTile(tube)}</dl>
    <section class="card" aria-label="Figures">
      ${facts([
        ["in, out", `${rate(rates.puts)} /s, ${rate(rates.deletes)} /s`],
        ["timeouts", `${rate(rates.timeouts)} /s, ${exact(totals.timeouts)} in all`],
        ["disconnects", `${rate(rates.disconnects)} /s, ${exact(totals.disconnects)} in all`],
        ["wait, p50 and p99", timesOf(tube, ({ wait }) => wait)],
        ["hold, p50 and p99", timesOf(tube, ({ hold }) => hold)],
        ["watching, waiting", `${exact(watchers)}, ${exact(waiters)}`],
        ["using", exact(users)],
        ["bodies", bytes(bodyBytes)],
        ["total puts", exact(totals.puts)],
      ])}
    </section>
    ${tubeFailures(tube, context)} ${tubeSettings(tube, context)} ${charts(name, context)}
    ${jobsCard(jobs, tube.settings["keepFinished"] !== undefined, context)}
  `;
}

const putButton = (name: string, { act }: PageContext): Part =>
  html`<button class="button main" type="button" @click=${() => act((actions) => actions.putJob(name))}>Put a job…</button>`;

/** States why the jobs of the tube are held up, and what to do about it. */
function notices(tube: TubeRow & SettingsOfTube): Part {
  const { name, jobs, pause, holdsDead, settings } = tube;
  const ready = jobsInWords(jobs.ready);
  const pattern = pausedBy(settings);
  const until =
    pause?.timeLeft != null
      ? `for another ${duration(pause.timeLeft)}`
      : pattern === undefined || pattern === name
        ? "until someone resumes it"
        : html`until someone resumes it, since ${nameOf(pattern)} is paused`;
  return html`${
    pause !== null
      ? html`<p class="notice" role="status">Paused: workers get no jobs of ${name} ${until}. ${jobs.ready === 0 ? "None is ready." : `${ready} ${jobs.ready === 1 ? "waits" : "wait"}.`}</p>`
      : nothing
  }${
    holdsDead
      ? html`<p class="notice">A dead-letter tube: its jobs died elsewhere. Workers here would only do them again. Find out why they died; when the cause is fixed, Redrive returns them.</p>`
      : nothing
  }`;
}

function timesOf({ times }: TubeRow, of: (times: TubeTimes) => TubeTimes["wait"]): Part {
  if (times === null)
    return html`<span title="The server measures at most 100 tubes: the first of those with series in metrics. If there is room, measuring starts within ten seconds.">not measured</span>`;
  const { count, p50, p99 } = of(times);
  const period = duration(times.seconds);
  const none = times.seconds === 0 ? "measured from now on" : `no job in ${period}`;
  const title = `${jobsInWords(count)} in the last ${period}`;
  return html`<span title=${title}>${count === 0 ? none : `${time(p50)}, ${time(p99)}`}</span>`;
}

/** Estimates the time until the tube is empty, at the pace of the last seconds. */
function emptyTile({ jobs, rates }: TubeRow): Part {
  const pace = rates.deletes - rates.puts;
  if (jobs.ready === 0) return tile("empty in", "–", "none is ready");
  if (pace >= PACE_MIN) return tile("empty in", duration(jobs.ready / pace), `at ${rate(pace)} /s`);
  return tile("empty in", "∞", pace > -PACE_MIN ? "it isn't shrinking" : `grows by ${rate(-pace)} /s`);
}

/** Jobs per second below which a tube counts as neither shrinking nor growing. */
const PACE_MIN = 0.05;

function tubeActions(tube: TubeRow & SettingsOfTube, context: PageContext): Part {
  const { name, holdsDead, pause, settings } = tube;
  const { may, act } = context;
  const mayResume = pausedBy(settings) === undefined || may(ALL_TUBES);
  const filter = filterOf(context);
  const tubes = [name];
  const redrives = may(ALL_TUBES) && (holdsDead || context.place.query.has("dead"));
  const button = (label: string, tone: string, open: Parameters<PageContext["act"]>[0]): Part =>
    html`<button class="button ${tone}" type="button" @click=${() => act(open)}>${label}</button>`;
  const manage = folded(
    "Actions",
    html`
    <button class="button" type="button" id="pause" ?disabled=${!mayResume} title=${mayResume ? nothing : "Your token is limited to some tubes, and may not change the setting that pauses this one."}
      @click=${() => act((actions) => (pause === null ? actions.pauseTubes(tubes, may(ALL_TUBES)) : actions.resumeTube(name, pausedBy(settings))))}>${pause === null ? "Pause…" : "Resume…"}</button>
    ${redrives ? button("Redrive…", "", (actions) => actions.redriveTubes(tubes, filter)) : nothing}
    ${button("Kick…", "", (actions) => actions.kickTubes(tubes, filter))}
    ${button("Move…", "", (actions) => actions.moveTubes(tubes, filter))}
    ${button("Clear…", "bad", (actions) => actions.clearTubes(tubes, filter))}
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
    return {
      id,
      title,
      url,
      lines,
      span: "The last 50 minutes",
      spanSeconds: HISTORY_SECONDS,
      isLog: isLog(context),
    };
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
    { ...line("disconnects", "delayed", [12, 3, 3, 3]), label: "disconnects /s", isRate: true },
  ];
  return html`<div class="two">
    ${chartCard("states-chart", "Jobs by state", context)} ${chartCard("flow-chart", "Jobs a second", context)}
    ${context.charts([of("states-chart", "Jobs by state", states), of("flow-chart", "Jobs a second", flow)])}
  </div>`;
}

const chartCard = (
  id: string,
  title: string,
  context: PageContext,
): Part => html`<section class="card" aria-labelledby="${id}-title">
  <div class="heading"><h2 id="${id}-title">${title}</h2>${scaleButton(context)}</div>
  ${chartPlace(id)}
</section>`;
