// The pages: what each asks for, and how it looks.

import { html, nothing } from "lit-html";
import type { Chart, Desk, Page } from "./desk.ts";
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
  tubePath,
  tubeTable,
} from "./parts.ts";
import type {
  Bucket,
  JobRow,
  LogPageView,
  OverviewView,
  Refused,
  ServerView,
  TubeRow,
  TubesView,
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
      <div class="bar" role="group" aria-label="How long back">
        ${Object.entries(SPANS).map(
          ([key, { label }]) => html`<button class="button" type="button" aria-pressed=${key === spanOf(desk)}
            @click=${() => desk.go({ span: key === "5m" ? "" : key })}>${label}</button>`,
        )}
      </div>
      <div class="chart" id="chart"></div>
      <p class="quiet" id="chart-words"></p>
      ${desk.charts([rateChart(desk)])}
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

const SPANS: Readonly<
  Record<string, { readonly label: string; readonly seconds: number; readonly span: string }>
> = {
  "5m": { label: "5 min", seconds: 300, span: "The last 5 minutes" },
  "1h": { label: "1 h", seconds: 3600, span: "The last hour" },
  "24h": { label: "24 h", seconds: 86_400, span: "The last day" },
};

const spanOf = ({ place }: Desk): string => {
  const asked = place.query.get("span") ?? "";
  return Object.hasOwn(SPANS, asked) ? asked : "5m";
};

function rateChart(desk: Desk): Chart {
  const { seconds, span } = SPANS[spanOf(desk)]!;
  return {
    id: "chart",
    url: `v1/history?seconds=${seconds}&series=puts,reserves,deletes`,
    span,
    lines: [
      { series: "puts", label: "puts /s", colour: "ready", isRate: true },
      { series: "reserves", label: "reserves /s", colour: "reserved", isRate: true, dash: [8, 4] },
      { series: "deletes", label: "deletes /s", colour: "delayed", isRate: true, dash: [3, 3] },
    ],
  };
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
    const { rows, heldSeconds } = inHeldOrder(view.items, `${query}`);
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
          ${heldSeconds === 0 ? nothing : html`<span class="quiet">order is ${heldSeconds} s old</span>`}
        </div>
        ${desk.selected.size === 0 ? nothing : chosenTubes(desk)}
        ${
          view.items.length === 0
            ? empty(match === "" ? "There are no tubes." : `No tube has a name like ${match}.`)
            : tubeTable(
                rows,
                "All tubes",
                COLUMNS,
                { sort, order, onSort },
                desk.may("manage") ? desk : undefined,
              )
        }
        ${view.total === 1 && view.items[0]?.name === "default" && view.items[0].totals["puts"] === 0 ? empty("A tube comes with its first job.", firstJob) : nothing}
        ${view.matched > PAGE_ROWS ? pager(view, desk) : nothing}
      </section>
    `;
  },
};

/** Rows never move under the pointer, nor away from the focus: meanwhile they keep the order that they had. */
function inHeldOrder(
  items: readonly TubeRow[],
  query: string,
): { rows: readonly TubeRow[]; heldSeconds: number } {
  const isHeld = document.querySelector("main tbody:hover, main tbody:focus-within") !== null;
  if (!isHeld || held.query !== query) {
    held = { query, places: new Map(items.map(({ name }, place) => [name, place])), atMs: Date.now() };
    return { rows: items, heldSeconds: 0 };
  }
  const place = ({ name }: TubeRow): number => held.places.get(name) ?? Number.MAX_SAFE_INTEGER;
  const rows = items.toSorted((a, b) => place(a) - place(b));
  const isOther = rows.some((row, index) => row !== items[index]);
  return { rows, heldSeconds: isOther ? Math.max(1, Math.floor((Date.now() - held.atMs) / 1000)) : 0 };
}

let held: { query: string; places: ReadonlyMap<string, number>; atMs: number } = {
  query: "",
  places: new Map(),
  atMs: 0,
};

function chosenTubes(desk: Desk): Part {
  const names = [...desk.selected];
  const button = (label: string, tone: string, open: Parameters<Desk["act"]>[0]): Part =>
    html`<button class="button ${tone}" type="button" @click=${() => desk.act(open)}>${label}</button>`;
  return html`<div class="bar chosen" role="group" aria-label="What to do with the selected tubes">
    <span aria-live="polite">${exact(names.length)} selected:</span>
    ${button("Pause…", "", (actions) => actions.pauseTubes(names))}
    ${button("Kick…", "", (actions) => actions.kickTubes(names))}
    ${button("Move…", "", (actions) => actions.moveTubes(names))}
    ${button("Clear…", "bad", (actions) => actions.clearTubes(names))}
    <button class="button" type="button" @click=${() => desk.select(names, false)}>None</button>
  </div>`;
}

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

// --- a tube, connections ------------------------------------------------------------------------------------

/** A page whose module is loaded when it is looked at. */
function later(load: () => Promise<(view: never, desk: Desk) => Part>): Page["show"] {
  let show: ((view: never, desk: Desk) => Part) | undefined;
  return (view, desk) => {
    if (show !== undefined) return show(view, desk);
    load().then((loaded) => {
      show = loaded;
      desk.redraw();
    }, nothingToDo);
    return html`<p class="quiet">…</p>`;
  };
}

/** The server is gone, and the page says so; the next view tries again. */
const nothingToDo = (): void => {};

const JOB_FILTERS = ["text", "cursor", "order", "ageFrom", "priFrom", "priTo"];

const tube: Page = {
  title: ({ name }) => name,
  view: ({ name }) => `${new URLSearchParams({ view: "tube", tube: name })}`,
  fetch: ({ name, query }) => {
    const asked = new URLSearchParams({ limit: "50", bodyMax: "120", state: query.get("state") ?? "ready" });
    for (const key of JOB_FILTERS) if (query.has(key)) asked.set(key, query.get(key)!);
    return tubePath(name, "jobs", `${asked}`);
  },
  show: later(async () => (await import("./tube-page.ts")).showTube),
};

const connections: Page = {
  title: () => "Connections",
  view: () => "view=server",
  fetch: ({ query }) => {
    const asked = new URLSearchParams();
    for (const key of ["state", "tube"]) if (query.has(key)) asked.set(key, query.get(key)!);
    return `v1/connections?${asked}`;
  },
  show: later(async () => {
    const { showConnections } = await import("./connections.ts");
    return (_view, desk) => showConnections(desk);
  }),
};

const group: Page = {
  title: () => "Group",
  view: () => "view=group",
  show: later(async () => {
    const { showGroup } = await import("./group.ts");
    return (view) => showGroup(view);
  }),
};

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
        ${facts([
          ["pri", exact(found.pri)],
          ["age", duration(found.age)],
          ...sinceWhen(found),
          ["delay, time to run", `${duration(Number(found["delay"]))}, ${duration(Number(found["ttr"]))}`],
          ...["reserves", "timeouts", "releases", "buries", "kicks"].map((key): [string, string] => [
            key,
            exact(Number(found[key])),
          ]),
        ])}
      </section>
      <section class="card" aria-labelledby="body">
        <h2 id="body">Body <small>${exact(found.bytes)} bytes</small></h2>
        ${desk.may("bodies") ? wholeBody(found) : html`<p class="quiet">Your role does not see bodies of jobs.</p>`}
      </section>
    `;
  },
};

function jobActions({ id, tube: of, state, body, truncated, pri, ttr }: JobRow, { act, may }: Desk): Part {
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
    ${
      may("put") && body !== undefined && !truncated
        ? html`<button class="button" type="button" @click=${() => act((actions) => actions.putJob(of, { body, pri, ttr: Number(ttr) }))}>Put again…</button>`
        : nothing
    }
    ${
      state === "reserved"
        ? nothing
        : html`<button class="button" type="button" @click=${() => act((actions) => actions.moveJobs({ tube: of, state, ids: [id] }))}>Move…</button>`
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

/** What is to be said of its state: since when, how long still, and who holds it. */
function sinceWhen({ state, timeLeft, holder, readySince, buriedSince }: JobRow): [string, string | Part][] {
  if (state === "ready") return [["ready for", duration(Number(readySince))]];
  if (state === "buried") return [["buried for", duration(Number(buriedSince))]];
  const left: [string, string] = ["time left", duration(timeLeft)];
  if (state === "delayed") return [left];
  const who =
    holder === "lease"
      ? "a worker over HTTP"
      : html`<a href="#/connections?state=holding">connection ${holder}</a>`;
  return [left, ["held by", who]];
}

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

const drainButton = (isDraining: boolean, { act }: Desk): Part => html`<div class="actions">
  <button class="button" type="button" @click=${() => act((actions) => actions.drain(!isDraining))}>
    ${isDraining ? "Take new jobs again…" : "Drain…"}
  </button>
</div>`;

const server: Page = {
  title: () => "Server",
  view: () => "view=server",
  show: ({ server: its, threads, frame }: ServerView, desk) => {
    const memory = its["memory"] as Record<string, number>;
    const options = its["options"] as Record<string, unknown>;
    return html`
      <div class="title">
        <h1>Server</h1>
        ${desk.may("admin") ? drainButton(its["draining"] === true, desk) : nothing}
      </div>
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
          ${facts(Object.entries(options).map(([key, value]): [string, string] => [words(key), optionValue(key, value)]))}
        </section>
      </div>
    `;
  },
};

function optionValue(key: string, value: unknown): string {
  if (value === null) return "none";
  return key.endsWith("Bytes") ? bytes(Number(value)) : `${value}`;
}

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
