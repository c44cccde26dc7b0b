// The pages: what each asks for, and how it looks.

import { html, nothing } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import type { Desk, Page } from "./desk.ts";
import { bytes, duration, exact, rate, short } from "./format.ts";
import {
  COLUMNS,
  empty,
  facts,
  meter,
  type Part,
  STATES,
  stateTiles,
  tile,
  tubeLink,
  tubeTable,
} from "./parts.ts";
import type {
  Bucket,
  GroupPageView,
  LogPageView,
  OverviewView,
  ServerView,
  TubesView,
  TubeView,
} from "./view-types.ts";

const SHORT_COLUMNS = COLUMNS.filter(({ key }) =>
  ["ready", "oldest", "putsRate", "deletesRate"].includes(key),
);

// --- overview -----------------------------------------------------------------------------------------------

const overview: Page = {
  title: () => "Overview",
  view: () => "view=overview",
  show: (view: OverviewView, desk) => html`
    <h1 class="hidden">Overview</h1>
    <dl class="tiles">
      ${stateTiles(view.jobs)}
      ${tile(
        "oldest ready",
        duration(view.oldest?.seconds ?? null),
        view.oldest === null
          ? "no job waits"
          : html`<a href=${tubeLink(view.oldest.tube)}>${view.oldest.tube}</a>`,
      )}
      ${tile("waiting clients", short(view.waiting), `${exact(view.connections)} connections`)}
    </dl>
    <section class="card" aria-labelledby="rates">
      <h2 id="rates">
        Jobs a second
        <small>${rate(view.rates.puts)} put · ${rate(view.rates.reserves)} reserved · ${rate(view.rates.deletes)} deleted</small>
      </h2>
      <div class="chart" id="chart"></div>
      <p class="quiet" id="chart-words"></p>
      ${chartSoon(desk)}
    </section>
    <div class="two">
      <section class="card" aria-labelledby="attention">
        <h2 id="attention">Needs attention</h2>
        ${attention(view)}
      </section>
      <section class="card" aria-labelledby="oldest">
        <h2 id="oldest">Waiting longest</h2>
        ${
          view.oldestTubes.length === 0
            ? empty("No job waits for a worker.")
            : tubeTable(view.oldestTubes, "Tubes whose jobs wait longest", SHORT_COLUMNS)
        }
      </section>
      <section class="card" aria-labelledby="busiest">
        <h2 id="busiest">Busiest <small>${exact(view.tubes)} tubes</small></h2>
        ${
          view.busiest.length === 0
            ? empty("Nothing was put or reserved in the last seconds.", firstJob)
            : tubeTable(view.busiest, "Tubes with most puts and reserves", SHORT_COLUMNS)
        }
      </section>
      <section class="card" aria-labelledby="log-short">
        <h2 id="log-short">Log</h2>
        ${view.log === null ? noLog : logFacts(view.log)}
      </section>
    </div>
  `,
};

/** The chart lives outside of templates: it is told when its place is there. */
function chartSoon(desk: Desk): typeof nothing {
  queueMicrotask(() => desk.chart(document.querySelector("#chart") ?? undefined));
  return nothing;
}

const firstJob = html`<p>A first job, from a shell:</p>
  <pre class="body">printf 'put 0 0 60 5\\r\\nhello\\r\\nquit\\r\\n' | nc 127.0.0.1 11300</pre>`;

function attention({ attention: found, moreAttention }: OverviewView): Part {
  if (found.length === 0) return empty("Nothing needs attention.");
  return html`<ul class="list">
    ${found.map(
      ({ level, tube, text }) => html`<li>
        <span class=${level === "bad" ? "buried" : "delayed"} aria-hidden="true">${level === "bad" ? "●" : "▲"}</span>
        <span class="grow">
          <span class="hidden">${level === "bad" ? "Serious:" : "Look at:"}</span>
          ${tube === null ? nothing : html`<a href=${tubeLink(tube)}>${tube}</a>: `}${text}
        </span>
      </li>`,
    )}
    ${moreAttention > 0 ? html`<li class="quiet">and ${exact(moreAttention)} more</li>` : nothing}
  </ul>`;
}

// --- tubes --------------------------------------------------------------------------------------------------

const PAGE_ROWS = 50;

const tubes: Page = {
  title: () => "Tubes",
  view: ({ query }) => {
    const asked = new URLSearchParams({ view: "tubes" });
    for (const key of ["match", "sort", "order", "from"]) {
      const value = query.get(key);
      if (value !== null) asked.set(key, value);
    }
    return `${asked}`;
  },
  show: (view: TubesView, desk) => {
    const { query } = desk.place;
    const sort = query.get("sort") ?? "oldest";
    const order = query.get("order") ?? (sort === "name" ? "asc" : "desc");
    const onSort = (key: string): void =>
      desk.go({ sort: key, order: key === sort ? (order === "asc" ? "desc" : "asc") : "", from: "" });
    const match = query.get("match") ?? "";
    return html`
      <div class="title"><h1>Tubes</h1></div>
      <section class="card">
        <div class="bar">
          <label class="grow">
            <span class="hidden">Filter by name</span>
            <input
              type="search"
              id="filter"
              placeholder="filter, as mail-*"
              .value=${match}
              @input=${(event: Event) => desk.go({ match: (event.target as HTMLInputElement).value, from: "" })}
            >
          </label>
          <span class="quiet" aria-live="polite">
            ${exact(view.total)} tubes${match === "" ? nothing : `, ${exact(view.matched)} match`}
          </span>
        </div>
        ${
          view.items.length === 0
            ? empty(match === "" ? "There are no tubes." : `No tube has a name like ${match}.`)
            : tubeTable(view.items, "All tubes", COLUMNS, { sort, order, onSort })
        }
        ${view.total === 1 && view.items[0]?.name === "default" && view.items[0].totals["puts"] === 0 ? empty("A tube comes with its first job.", firstJob) : nothing}
        ${view.matched > PAGE_ROWS ? pager(view, desk) : nothing}
      </section>
    `;
  },
};

function pager({ from, matched, items }: TubesView, desk: Desk): Part {
  const to = (at: number): void => desk.go({ from: at <= 0 ? "" : `${at}` });
  return html`<div class="bar">
    <span class="quiet">${exact(from + 1)}–${exact(from + items.length)} of ${exact(matched)}</span>
    <button class="button" type="button" ?disabled=${from === 0} @click=${() => to(from - PAGE_ROWS)}>Previous</button>
    <button class="button" type="button" ?disabled=${from + items.length >= matched} @click=${() => to(from + PAGE_ROWS)}>
      Next
    </button>
  </div>`;
}

// --- a tube -------------------------------------------------------------------------------------------------

function tubeActions(name: string, isPaused: boolean, { may, act }: Desk): Part {
  const put = html`<button class="button main" type="button" @click=${() => act((actions) => actions.putJob(name))}>Put a job…</button>`;
  const manage = html`
    ${
      isPaused
        ? html`<button class="button" type="button" id="pause" @click=${() => act((actions) => actions.resumeTube(name))}>Resume…</button>`
        : html`<button class="button" type="button" id="pause" @click=${() => act((actions) => actions.pauseTube(name))}>Pause…</button>`
    }
    <button class="button" type="button" @click=${() => act((actions) => actions.kickTube(name))}>Kick…</button>
    <button class="button bad" type="button" @click=${() => act((actions) => actions.clearTube(name))}>Clear…</button>
  `;
  return html`<div class="actions">${may("put") ? put : nothing} ${may("manage") ? manage : nothing}</div>`;
}

interface JobRow {
  readonly id: number;
  readonly tube: string;
  readonly state: string;
  readonly pri: number;
  readonly age: number;
  readonly timeLeft: number | null;
  readonly reserves: number;
  readonly timeouts: number;
  readonly bytes: number;
  readonly body?: string;
  readonly bodyBase64?: string;
  readonly [field: string]: unknown;
}

/** A problem in the place of what was asked for. */
interface Refused {
  readonly status: number;
  readonly detail: string;
}

interface JobsPage {
  readonly items: readonly JobRow[];
  readonly cursor: string | null;
  readonly examined: number;
}

const tubePath = (name: string): string =>
  name === "." || name === ".."
    ? `v1/tubes/-/jobs?tube=${name}&`
    : `v1/tubes/${encodeURIComponent(name)}/jobs?`;

const tube: Page = {
  title: ({ name }) => name,
  view: ({ name }) => `${new URLSearchParams({ view: "tube", tube: name })}`,
  fetch: ({ name, query }) => {
    const asked = new URLSearchParams({ limit: "50", bodyMax: "120", state: query.get("state") ?? "ready" });
    for (const key of ["text", "cursor"]) if (query.has(key)) asked.set(key, query.get(key)!);
    return `${tubePath(name)}${asked}`;
  },
  show: (view: TubeView, desk) => {
    const { name, query } = desk.place;
    if (view.tube === null)
      return html`<div class="title"><h1>${name}</h1></div>
        <section class="card">
          ${empty("There is no such tube now: nobody uses or watches it, and it has no jobs. It comes back with its next job.")}
        </section>`;
    const { jobs, rates, pause, watchers, waiters, users, bodyBytes, totals } = view.tube;
    return html`
      <div class="title">
        <h1>${name}</h1>
        ${pause === null ? nothing : html`<span class="delayed">◷ paused, ${duration(pause.timeLeft)} left</span>`}
        ${tubeActions(name, pause !== null, desk)}
      </div>
      <dl class="tiles">${stateTiles(jobs)} ${tile("oldest ready", duration(view.tube.oldestReady))}</dl>
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
      <section class="card" aria-labelledby="jobs">
        <h2 id="jobs">Jobs</h2>
        <div class="bar" role="group" aria-label="State of the jobs">
          ${STATES.map(
            ({ name: state, sign }) => html`<button
              type="button"
              class="button"
              aria-pressed=${(query.get("state") ?? "ready") === state}
              @click=${() => desk.go({ state: state === "ready" ? "" : state, cursor: "" })}
            >
              <span class=${state} aria-hidden="true">${sign}</span>&nbsp;${state} ${short(jobs[state])}
            </button>`,
          )}
          ${desk.may("bodies") ? textFilter(desk) : nothing}
        </div>
        ${jobTable(desk.fetched as JobsPage | Refused | undefined, desk)}
      </section>
    `;
  },
};

const textFilter = (desk: Desk): Part => html`<label class="grow">
  <span class="hidden">Text in the body</span>
  <input
    type="search"
    placeholder="text in the body"
    maxlength="200"
    .value=${desk.place.query.get("text") ?? ""}
    @change=${(event: Event) => desk.go({ text: (event.target as HTMLInputElement).value, cursor: "" })}
  >
</label>`;

const WHY_NONE: Readonly<Record<string, string>> = {
  ready: "All that was put is with workers, waits for its time, or is done.",
  reserved: "No worker is at work on one: a job is reserved from reserve to delete, release or bury.",
  delayed: "A job is delayed when it is put or released with a delay.",
  buried: "Workers bury what they cannot do; it stays until somebody kicks or deletes it.",
};

function jobTable(page: JobsPage | Refused | undefined, desk: Desk): Part {
  if (page === undefined) return html`<p class="quiet">…</p>`;
  if ("status" in page) return empty(page.detail);
  const state = desk.place.query.get("state") ?? "ready";
  if (page.items.length === 0 && page.cursor === null)
    return desk.place.query.has("text")
      ? empty(`No ${state} job here with this text.`)
      : empty(`No ${state} job here. ${WHY_NONE[state] ?? ""}`);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="List of jobs">
      <table>
        <caption class="hidden">Jobs of ${desk.place.name}, ${state}</caption>
        <thead>
          <tr>
            <th scope="col">id</th><th scope="col">pri</th><th scope="col">age</th><th scope="col" class="optional">left</th>
            <th scope="col" class="optional">reserves</th><th scope="col" class="optional">bytes</th><th scope="col" class="left">body</th>
          </tr>
        </thead>
        <tbody>
          ${repeat(
            page.items,
            ({ id }) => id,
            (job) => html`<tr>
              <th scope="row"><a href="#/jobs/${job.id}">${job.id}</a></th>
              <td>${exact(job.pri)}</td>
              <td>${duration(job.age)}</td>
              <td class="optional">${job.state === "ready" || job.state === "buried" ? "–" : duration(job.timeLeft ?? null)}</td>
              <td class="optional">${exact(job.reserves)}</td>
              <td class="optional">${exact(job.bytes)}</td>
              <td class="left">${bodyStart(job)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    <div class="bar">
      <span class="quiet">${exact(page.examined)} looked at</span>
      ${
        page.cursor === null
          ? nothing
          : html`<button class="button" type="button" @click=${() => desk.go({ cursor: page.cursor! })}>More</button>`
      }
      ${
        desk.place.query.has("cursor")
          ? html`<button class="button" type="button" @click=${() => desk.go({ cursor: "" })}>From the start</button>`
          : nothing
      }
    </div>`;
}

const SHOWN_CHARACTERS = 80;

function bodyStart({ body, bodyBase64 }: JobRow): Part {
  if (body === undefined)
    return html`<span class="quiet">${bodyBase64 === undefined ? "not shown" : "bytes that are no text"}</span>`;
  return html`<code>${body.slice(0, SHOWN_CHARACTERS)}${body.length > SHOWN_CHARACTERS ? "…" : ""}</code>`;
}

// --- a job --------------------------------------------------------------------------------------------------

const job: Page = {
  title: ({ name }) => `Job ${name}`,
  view: () => "view=server",
  fetch: ({ name }) => `v1/jobs/${encodeURIComponent(name)}?bodyMax=65536`,
  show: (_view: ServerView, desk) => {
    const found = desk.fetched as JobRow | Refused | undefined;
    const { name } = desk.place;
    if (found === undefined) return html`<div class="title"><h1>Job ${name}</h1></div>`;
    if (!("id" in found))
      return html`<div class="title"><h1>Job ${name}</h1></div>
        <section class="card">${empty(found.status === 404 ? "There is no such job: it is done, or was never put." : found.detail)}</section>`;
    const its = STATES.find(({ name: state }) => state === found.state);
    return html`
      <div class="title">
        <h1>Job ${found.id}</h1>
        <span>in <a href=${tubeLink(found.tube)}>${found.tube}</a></span>
        <span class=${found.state}><span aria-hidden="true">${its?.sign ?? ""}</span> ${found.state}</span>
        ${desk.may("manage") ? jobActions(found, desk) : nothing}
      </div>
      <section class="card" aria-label="Figures">
        ${facts(
          Object.entries(found)
            .filter(
              ([key, value]) =>
                !["body", "bodyBase64", "id", "tube", "state"].includes(key) && typeof value !== "object",
            )
            .map(([key, value]): [string, string] => [words(key), inUnits(key, value)]),
        )}
      </section>
      <section class="card" aria-labelledby="body">
        <h2 id="body">Body <small>${exact(found.bytes)} bytes</small></h2>
        ${desk.may("bodies") ? wholeBody(found) : html`<p class="quiet">Your role does not see bodies of jobs.</p>`}
      </section>
    `;
  },
};

function jobActions({ id, tube: of, state }: JobRow, { act }: Desk): Part {
  return html`<div class="actions">
    ${
      state === "buried" || state === "delayed"
        ? html`<button class="button" type="button" @click=${() => act((actions) => actions.kickJob(id, of))}>Kick…</button>`
        : nothing
    }
    ${
      state === "reserved"
        ? html`<button class="button" type="button" @click=${() => act((actions) => actions.releaseJob(id, of))}>Release…</button>`
        : nothing
    }
    <button class="button bad" type="button" @click=${() => act((actions) => actions.deleteJob(id, of, state === "reserved"))}>
      Delete…
    </button>
  </div>`;
}

const wholeBody = ({ id, body, bodyBase64, truncated }: JobRow): Part => html`
  ${body === undefined ? html`<p class="quiet">Bytes that are no text, in base64.</p>` : nothing}
  <pre class="body" tabindex="0" role="region" aria-label="Body">${body ?? bodyBase64 ?? ""}</pre>
  <p>
    <a href="v1/jobs/${id}/body" download="job-${id}">Download</a>
    ${truncated === true ? html`<span class="quiet">the first 64 KiB are shown</span>` : nothing}
  </p>
`;

/** timeLeft → time left. */
const words = (key: string): string => key.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

const SECONDS: ReadonlySet<string> = new Set(["age", "timeLeft", "ttr", "delay"]);

function inUnits(key: string, value: unknown): string {
  if (typeof value !== "number") return `${value}`;
  return SECONDS.has(key) ? duration(value) : exact(value);
}

// --- connections --------------------------------------------------------------------------------------------

let showConnections: ((desk: Desk) => Part) | undefined;

/** Loaded when it is looked at. */
const connections: Page = {
  title: () => "Connections",
  view: () => "view=server",
  fetch: ({ query }) => {
    const asked = new URLSearchParams();
    for (const key of ["state", "tube"]) if (query.has(key)) asked.set(key, query.get(key)!);
    return `v1/connections?${asked}`;
  },
  show: (_view: ServerView, desk) => {
    if (showConnections !== undefined) return showConnections(desk);
    import("./connections.ts").then((module) => {
      ({ showConnections } = module);
      desk.redraw();
    }, nothingToDo);
    return html`<h1 class="hidden">Connections</h1><p class="quiet">…</p>`;
  },
};

/** The server is gone, and the page says so; the next view tries again. */
const nothingToDo = (): void => {};

let showGroup: ((view: GroupPageView) => Part) | undefined;

/** Loaded when it is looked at. */
const group: Page = {
  title: () => "Group",
  view: () => "view=group",
  show: (view: GroupPageView, desk) => {
    if (showGroup !== undefined) return showGroup(view);
    import("./group.ts").then((module) => {
      ({ showGroup } = module);
      desk.redraw();
    }, nothingToDo);
    return html`<h1 class="hidden">Group</h1><p class="quiet">…</p>`;
  },
};

// --- log and server -----------------------------------------------------------------------------------------

const noLog = html`<div class="empty">
  <p>There is no log: jobs live in memory only, and are gone when the server ends.</p>
  <p>Start it with <code>-b DIR</code>, and what was acknowledged survives.</p>
</div>`;

function logFacts(log: NonNullable<OverviewView["log"]>): Part {
  const share = log.bytes === 0 ? 0 : log.live / log.bytes;
  return html`${facts([
    ["on the disk", bytes(log.bytes)],
    ["live", `${bytes(log.live)}, ${Math.round(share * 100)} %`],
    ["files", exact(log.currentFile - log.oldestFile + 1)],
    ["99 % of syncs take", quantile(log.syncSeconds, 0.99)],
  ])}
    ${meter(share)}`;
}

/** Below what most values are: the bound of the bucket where the share is reached. */
function quantile(buckets: readonly Bucket[], share: number): string {
  const all = buckets.reduce((sum, { count }) => sum + count, 0);
  if (all === 0) return "–";
  let passed = 0;
  let last = 0;
  for (const { le, count } of buckets) {
    passed += count;
    if (le !== null) last = le;
    if (passed >= all * share)
      return le === null ? `over ${milliseconds(last)}` : `up to ${milliseconds(le)}`;
  }
  return "–";
}

const milliseconds = (seconds: number): string =>
  seconds < 1 ? `${+(seconds * 1000).toPrecision(2)} ms` : `${seconds} s`;

const log: Page = {
  title: () => "Log",
  view: () => "view=log",
  show: (view: LogPageView) => html`
    <div class="title"><h1>Log</h1></div>
    ${
      view.log === null
        ? html`<section class="card">${noLog}</section>`
        : html`<section class="card" aria-label="Files">${logFacts(view.log)}</section>
            <div class="two">
              ${distribution("Syncs", "How long the disk took to make changes durable", view.log.syncSeconds)}
              ${distribution("Waits of replies", "How long changes waited for the disk", view.log.waitSeconds)}
            </div>
            <section class="card" aria-label="Records">
              ${facts([
                ["records written", exact(view.log.recordsWritten)],
                ["oldest file", exact(view.log.oldestFile)],
                ["current file", exact(view.log.currentFile)],
                [
                  "bytes on the disk for one that lives",
                  view.log.amplification === null ? "–" : `${view.log.amplification}`,
                ],
              ])}
            </section>`
    }
  `,
};

function distribution(title: string, caption: string, buckets: readonly Bucket[]): Part {
  const all = buckets.reduce((sum, { count }) => sum + count, 0);
  const shown = buckets.filter(({ count }, index) => count > 0 || (buckets[index + 1]?.count ?? 0) > 0);
  return html`<section class="card">
    <h2>${title} <small>${caption}</small></h2>
    ${
      all === 0
        ? empty("None so far.")
        : html`<table>
            <caption class="hidden">${caption}</caption>
            <thead><tr><th scope="col">up to</th><th scope="col">times</th><th scope="col" class="left">share</th></tr></thead>
            <tbody>
              ${shown.map(
                ({ le, count }) => html`<tr>
                  <th scope="row">${le === null ? "more" : milliseconds(le)}</th>
                  <td>${exact(count)}</td>
                  <td class="left" style="width:50%">${meter(count / all)}<span class="hidden">${Math.round((count / all) * 100)} %</span></td>
                </tr>`,
              )}
            </tbody>
          </table>`
    }
  </section>`;
}

const server: Page = {
  title: () => "Server",
  view: () => "view=server",
  show: ({ server: its, threads, frame }: ServerView) => {
    const memory = its["memory"] as Record<string, number>;
    const options = its["options"] as Record<string, unknown>;
    return html`
      <div class="title"><h1>Server</h1></div>
      <section class="card" aria-label="The process">
        ${facts([
          ["version", `${its["version"]} on Node ${its["node"]}`],
          ["host", `${its["hostname"]}, pid ${its["pid"]}`],
          ["up for", duration(frame.uptime)],
          ["listens on", (its["listeners"] as string[]).join(", ")],
          ["transport", `${its["transport"]}`],
          ["shards, acceptors", `${its["shards"]}, ${its["acceptors"]}`],
        ])}
      </section>
      <div class="two">
        <section class="card" aria-labelledby="threads">
          <h2 id="threads">Threads <small>share of a core</small></h2>
          <table>
            <caption class="hidden">CPU of each thread</caption>
            <thead><tr><th scope="col">thread</th><th scope="col">CPU</th><th scope="col" class="left"><span class="hidden">as a bar</span></th></tr></thead>
            <tbody>
              ${threads.map(
                ({ name, cpu }) => html`<tr>
                  <th scope="row">${name}</th><td>${Math.round(cpu * 100)} %</td><td class="left" style="width:45%">${meter(cpu)}</td>
                </tr>`,
              )}
            </tbody>
          </table>
        </section>
        <section class="card" aria-labelledby="memory">
          <h2 id="memory">Memory</h2>
          ${facts([
            ["of the process", bytes(memory["resident"] ?? 0)],
            ["jobs", bytes(memory["jobs"] ?? 0)],
            ["bodies", bytes(memory["bodies"] ?? 0)],
            ["HTTP side", bytes(memory["httpHeap"] ?? 0)],
            [
              "of max-memory",
              memory["limit"] ? `${bytes(memory["used"] ?? 0)} of ${bytes(memory["limit"])}` : "no limit",
            ],
          ])}
          <h2>Options</h2>
          ${facts(Object.entries(options).map(([key, value]): [string, string] => [words(key), value === null ? "none" : `${value}`]))}
        </section>
      </div>
    `;
  },
};

export const PAGES: Readonly<Record<string, Page>> = {
  "": overview,
  tubes,
  tube,
  job,
  connections,
  log,
  group,
  server,
};

/** Only of a server in a group. */
export const GROUP_PAGE = "group";

/** What the bar on the left leads to, with the key behind `g`. */
export const BAR: readonly { readonly page: string; readonly label: string; readonly key: string }[] = [
  { page: "", label: "Overview", key: "o" },
  { page: "tubes", label: "Tubes", key: "t" },
  { page: "connections", label: "Connections", key: "c" },
  { page: "log", label: "Log", key: "l" },
  { page: GROUP_PAGE, label: "Group", key: "r" },
  { page: "server", label: "Server", key: "s" },
];
