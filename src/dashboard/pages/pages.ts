// Pages of the dashboard: the data that each one requests, and its content.

import { html, nothing } from "lit-html";
import {
  ago,
  BUSIEST_COLUMNS,
  chartPlace,
  empty,
  findLink,
  firstJob,
  inHeldOrder,
  isLog,
  logFacts,
  noLog,
  type Part,
  SHORT_COLUMNS,
  scaleButton,
  stateTiles,
  threadTable,
  tile,
  tubeLink,
  tubePath,
  tubeTable,
} from "../parts/elements.ts";
import { exact, rate, short, tubes as tubeCount } from "../parts/format.ts";
import type { Chart, Page, PageContext, Place } from "../parts/page-context.ts";
import type {
  Attention,
  Counted,
  Health,
  JobRow,
  Load,
  LogView,
  Server,
  TubeRow,
  TubesView,
} from "../parts/view-types.ts";

// --- Overview ---

interface OverviewView {
  readonly health: Health;
  readonly server: Pick<Server, "jobs" | "waiting" | "connections" | "tubes" | "rates">;
  readonly attention: { readonly items: readonly Attention[] };
  readonly oldest: Counted<TubeRow>;
  readonly busiest: Counted<TubeRow>;
  readonly log: LogView | null;
  readonly threads: Pick<Load, "load">;
}

/** Those that tables of tubes show. */
const SHORT_FIELDS = "name,jobs,oldestReady,pause,rates";
const tubesPath = (asked: Readonly<Record<string, string>>): string =>
  `v1/tubes?${new URLSearchParams({ sort: "oldest", ...asked })}`;

const overview: Page = {
  title: () => "Overview",
  view: () => ({
    server: "v1/server?fields=jobs,waiting,connections,tubes,rates",
    attention: "v1/attention",
    oldest: tubesPath({ limit: "5", fields: SHORT_FIELDS }),
    busiest: tubesPath({ sort: "busiest", limit: "5", fields: SHORT_FIELDS }),
    log: "v1/binlog",
    threads: "v1/threads?fields=load",
  }),
  says: ({ attention: { items: found } }: OverviewView) =>
    found.length === 0
      ? "Nothing needs attention."
      : `Needs attention: ${found.length}. ${found[0]!.about ?? found[0]!.tube ?? "The server"}: ${found[0]!.text}.`,
  show: ({ health, server, attention: { items: found }, log, threads, ...lists }: OverviewView, context) => {
    const { jobs, waiting, connections, rates } = server;
    const waitingLongest = lists.oldest.items.filter(({ oldestReady }) => oldestReady !== null);
    const busiest = lists.busiest.items.filter(({ rates: its }) => its.puts + its.reserves > 0);
    const [oldest] = waitingLongest;
    return html`
    <h1 class="hidden">Overview</h1>
    <dl class="tiles">
      ${stateTiles(jobs)}
      ${tile(
        "oldest ready",
        ago(oldest?.oldestReady ?? null),
        oldest === undefined
          ? "no job waits"
          : html`<a href=${tubeLink(oldest.name)} title=${oldest.name}>${oldest.name}</a>`,
      )}
      ${tile("waiting clients", short(waiting), `of ${exact(connections)}`, `${exact(connections)} connections`)}
    </dl>
    <section class="card ${found.length === 0 ? "well" : "unwell"}" aria-labelledby="attention">
      <h2 id="attention">Needs attention</h2>
      ${attention(found)}
    </section>
    <div class="two">
    <section class="card" aria-labelledby="rates">
      <div class="heading">
        <h2 id="rates">
          Jobs a second
          <small>${rate(rates.puts)} put · ${rate(rates.reserves)} reserved · ${rate(rates.deletes)} deleted</small>
        </h2>
        <div class="group" role="group" aria-label="Period">
          ${Object.entries(SPANS).map(
            ([
              key,
              { label },
            ]) => html`<button class="button" type="button" aria-pressed=${key === spanOf(context)}
              @click=${() => context.go({ span: key === "5m" ? "" : key })}>${label}</button>`,
          )}
        </div>
      </div>
      ${chartPlace("chart")}
    </section>
    <section class="card" aria-labelledby="failures">
      <div class="heading">
        <h2 id="failures">
          Failures a second
          <small>${rate(rates.timeouts)} timed out · ${rate(rates.disconnects)} disconnected · ${rate(rates.buries)} buried · ${rate(rates.releases)} released</small>
        </h2>
          ${scaleButton(context)}
      </div>
      ${chartPlace("failures-chart")} ${context.charts(overviewCharts(context))}
    </section>
    </div>
    <div class="two">
      <section class="card" aria-labelledby="oldest">
        <h2 id="oldest">Waiting longest</h2>
        ${
          waitingLongest.length === 0
            ? empty("No job waits for a worker.")
            : shortTable("Tubes whose jobs wait longest", waitingLongest)
        }
      </section>
      <section class="card" aria-labelledby="busiest">
        <h2 id="busiest">Busiest <small>of ${tubeCount(server.tubes)}</small></h2>
        ${
          busiest.length === 0
            ? empty("No puts or reserves in the last seconds.", hasNoJob(server) ? firstJob(health) : nothing)
            : shortTable("Tubes with the most puts and reserves", busiest, BUSIEST_COLUMNS)
        }
      </section>
      <section class="card" aria-labelledby="log-short">
        <h2 id="log-short"><a href="#/log">Log</a></h2>
        ${log === null ? noLog : logFacts(log)}
      </section>
      <section class="card" aria-labelledby="threads-short">
        <h2 id="threads-short"><a href="#/server">Threads</a> <small>share of a core</small></h2>
        ${threadTable(threads.load)}
      </section>
    </div>
  `;
  },
};

const shortTable = (caption: string, tubes: readonly TubeRow[], columns = SHORT_COLUMNS): Part =>
  tubeTable(inHeldOrder(caption, "", tubes).rows, caption, columns);

const SPANS: Readonly<
  Record<string, { readonly label: string; readonly seconds: number; readonly span: string }>
> = {
  "5m": { label: "5 min", seconds: 300, span: "The last 5 minutes" },
  "1h": { label: "1 h", seconds: 3600, span: "The last hour" },
  "24h": { label: "24 h", seconds: 86_400, span: "The last day" },
};

const spanOf = ({ place }: PageContext): string => {
  const asked = place.query.get("span") ?? "";
  return Object.hasOwn(SPANS, asked) ? asked : "5m";
};

function overviewCharts(context: PageContext): Chart[] {
  const { seconds, span } = SPANS[spanOf(context)]!;
  const of = (id: string, title: string, lines: Chart["lines"]): Chart => {
    const url = `v1/history?seconds=${seconds}&series=${lines.map(({ series }) => series).join()}`;
    return { id, title, url, span, spanSeconds: seconds, lines, isLog: isLog(context) };
  };
  return [
    of("chart", "Jobs a second", [
      { series: "puts", label: "puts /s", colour: "ready", isRate: true },
      { series: "reserves", label: "reserves /s", colour: "reserved", isRate: true, dash: [8, 4] },
      { series: "deletes", label: "deletes /s", colour: "delayed", isRate: true, dash: [3, 3] },
    ]),
    of("failures-chart", "Failures a second", [
      { series: "timeouts", label: "timeouts /s", colour: "buried", isRate: true },
      { series: "disconnects", label: "disconnects /s", colour: "ready", isRate: true, dash: [12, 3, 3, 3] },
      { series: "buries", label: "buries /s", colour: "delayed", isRate: true, dash: [8, 4] },
      { series: "releases", label: "releases /s", colour: "reserved", isRate: true, dash: [3, 3] },
    ]),
  ];
}

function attention(found: readonly Attention[]): Part {
  if (found.length === 0)
    return html`<p><span class="ready" aria-hidden="true">✓</span> Nothing needs attention.</p>`;
  return html`<ul class="list">
    ${found.map(
      ({ level, tube, about, page, text, todo }) => html`<li>
        <span class="sign ${level === "bad" ? "buried" : "delayed"}" aria-hidden="true">${level === "bad" ? "●" : "▲"}</span>
        <span class="grow">
          <span class="hidden">${level === "bad" ? "Serious:" : "Look at:"}</span>
          ${attentionLink(page, about ?? tube ?? PAGE_NAMES[page.split("?")[0]!]!)}: ${text}
        </span>
        <span class="quiet todo">${todo}</span>
      </li>`,
    )}
  </ul>`;
}

const attentionLink = (page: string, name: string): Part =>
  html`<a class="name" href=${page} title=${name}><bdi>${name}</bdi></a>`;

const hasNoJob = ({ jobs, tubes: count }: OverviewView["server"]): boolean =>
  count <= 1 && jobs.ready + jobs.reserved + jobs.delayed + jobs.buried === 0;

const PAGE_NAMES: Readonly<Record<string, string>> = {
  "#/log": "log",
  "#/server": "server",
  "#/tubes": "tubes",
  "#/batches": "batches",
  "#/schedules": "schedules",
};

// --- Tubes ---

const tubes: Page = {
  title: () => "Tubes",
  says: ({ tubes: { total, matched } }: TubesView) =>
    matched === total ? `${tubeCount(total)}.` : `${exact(matched)} of ${tubeCount(total)} match.`,
  view: ({ query }) => ({
    tubes: tubesPath({
      limit: "50",
      ...chosenFrom(query, ["sort", "order", "from"]),
      ...matching(query.get("match") ?? ""),
    }),
  }),
  show: later(async () => (await import("./tubes-page.ts")).showTubes),
};

/** A pattern, or a part of the name. */
const matching = (text: string): { readonly match?: string } =>
  text === "" ? {} : { match: /[*?]/.test(text) ? text : `*${text}*` };

// --- Tube, connections ---

/** Returns a page whose module is loaded on demand. */
function later(load: () => Promise<(view: never, context: PageContext) => Part>): Page["show"] {
  let show: ((view: never, context: PageContext) => Part) | undefined;
  return (view, context) => {
    if (show !== undefined) return show(view, context);
    load().then((loaded) => {
      show = loaded;
      context.redraw();
    }, nothingToDo);
    return loading;
  };
}

/** A page without anything to show yet has a heading, too: screen readers go by it. */
export const loading: Part = html`<h1 class="hidden">The page is loading</h1><p class="quiet">…</p>`;

/** The page shows that the connection is lost; the next view tries again. */
const nothingToDo = (): void => {};

const JOB_FILTERS = ["state", "text", "cursor", "order", "ageFrom", "priFrom", "priTo", "dead", "batch"];

const tube: Page = {
  title: ({ name }) => name,
  view: ({ name }) => ({ tube: tubePath(name) }),
  fetch: ({ name, query }) => {
    if (query.get("state") === "finished")
      return tubePath(
        name,
        "finished",
        `${new URLSearchParams({ limit: "50", ...chosenFrom(query, ["cursor"]) })}`,
      );
    const asked = { limit: "50", bodyMax: "120", state: "ready", ...chosenFrom(query, JOB_FILTERS) };
    return tubePath(name, "jobs", `${new URLSearchParams(asked)}`);
  },
  show: later(async () => (await import("./tube-page.ts")).showTube),
};

const connections: Page = {
  title: () => "Connections",
  view: ({ query }) => ({
    // With the longest names, more would exceed what the server sends at a time.
    connections: `v1/connections?${new URLSearchParams({ each: "3", limit: "40", ...chosenFrom(query, ["state", "tube"]) })}`,
  }),
  show: later(async () => (await import("./connections-page.ts")).showConnections),
};

/** A page that fetches its list one page at a time. */
const fetchedList = (
  title: string,
  path: string,
  show: Page["show"],
  also: (query: URLSearchParams) => Readonly<Record<string, string>> = () => ({}),
): Page => ({
  title: () => title,
  view: () => ({}),
  fetch: ({ query }) => {
    return `${path}?${new URLSearchParams({ ...also(query), ...chosenFrom(query, ["cursor"]) })}`;
  },
  show,
});

/** A page that fetches one item by name, in the query: a path can't contain all names. */
const fetchedThing = (path: string, show: Page["show"]): Page => ({
  title: ({ name }) => name,
  view: () => ({}),
  fetch: ({ name }) => `${path}/-?${new URLSearchParams({ name })}`,
  show,
});

const chosenFrom = (query: URLSearchParams, keys: readonly string[]): Record<string, string> =>
  Object.fromEntries(keys.flatMap((key) => (query.has(key) ? [[key, query.get(key)!]] : [])));

const schedules = fetchedList(
  "Schedules",
  "v1/schedules",
  later(async () => (await import("./schedule-page.ts")).showSchedules),
  (query) => chosenFrom(query, ["match", "state"]),
);

const schedule = fetchedThing(
  "v1/schedules",
  later(async () => (await import("./schedule-page.ts")).showSchedule),
);

const batches = fetchedList(
  "Batches",
  "v1/batches",
  later(async () => (await import("./batch-page.ts")).showBatches),
  (query) => {
    const { state, ...match } = chosenFrom(query, ["match", "state"]);
    const order = query.get("order") === "asc" ? "oldest" : "newest";
    // Complete batches are distinguished by their outcome.
    const isOutcome = ["success", "failure", "cancelled"].includes(state ?? "");
    return { counts: "true", order, ...match, ...(state && { [isOutcome ? "outcome" : "state"]: state }) };
  },
);

const batch = fetchedThing(
  "v1/batches",
  later(async () => (await import("./batch-page.ts")).showBatch),
);

const group: Page = {
  title: () => "Group",
  isOfServer: true,
  view: () => ({ group: "v1/group" }),
  show: later(async () => {
    const { showGroup } = await import("./server-page.ts");
    return (view) => showGroup(view);
  }),
};

const job: Page = {
  title: ({ name }) => `Job ${name}`,
  view: ({ name }) => ({ job: `v1/jobs/${encodeURIComponent(name)}?bodyMax=0` }),
  // The view has everything except the body.
  fetch: ({ name }, may) => (may("bodies") ? `v1/jobs/${encodeURIComponent(name)}?bodyMax=65536` : undefined),
  // Only a put with the unique key of the job can replace its body.
  isLast: (fetched) => (fetched as Partial<JobRow>).unique == null,
  show: later(async () => (await import("./job-page.ts")).showJob),
};

const log: Page = {
  title: () => "Log",
  isOfServer: true,
  view: () => ({ log: "v1/binlog" }),
  show: later(async () => (await import("./server-page.ts")).showLog),
};

const server: Page = {
  title: () => "Server",
  isOfServer: true,
  view: () => ({ server: "v1/server", threads: "v1/threads?fields=load,rings" }),
  show: later(async () => (await import("./server-page.ts")).showServer),
};

const audit: Page = {
  title: () => "Audit",
  isOfServer: true,
  view: (_place, may) => ({ tasks: "v1/tasks", ...(may("admin") && { changes: "v1/audit?limit=100" }) }),
  show: later(async () => (await import("./audit-page.ts")).showAudit),
};

const find: Page = {
  title: ({ query }) => `“${query.get("text") ?? ""}”`,
  view: ({ query }) => ({ tubes: tubesPath({ limit: "50", ...matching(query.get("text") ?? "") }) }),
  fetch: ({ query }, may) => {
    const text = query.get("text") ?? "";
    if (text === "" || !may("bodies")) return undefined;
    const asked = { limit: "50", bodyMax: "120", ...chosenFrom(query, ["text", "state", "cursor"]) };
    return `v1/jobs?${new URLSearchParams(asked)}`;
  },
  // A search reads all bodies, so it is repeated only when the user asks for it.
  isLast: () => true,
  show: later(async () => (await import("./job-page.ts")).showFind),
};

/** A Map, since addresses are typed by users, and a Map has no `__proto__`. */
const PAGES: ReadonlyMap<string, Page> = new Map(
  Object.entries({
    tubes,
    job,
    jobs: job,
    find,
    connections,
    schedules,
    batches,
    log,
    group,
    server,
    audit,
  }),
);

const missing: Page = {
  title: () => "No such page",
  view: () => ({}),
  show: (_view, { place }) =>
    html`<div class="title"><h1>No such page</h1></div>
      <section class="card"><p>There is nothing at #/${place.page}. <a href="#/">Go to the overview</a>.</p></section>`,
};

/** Lists whose items have pages. */
const ITEM_PAGES: ReadonlyMap<string, Page> = new Map([
  ["tubes", tube],
  ["schedules", schedule],
  ["batches", batch],
]);

/** Returns the page of an address; the overview if there is no address. */
export const pageOf = ({ page, name }: Place): Page =>
  page === "" ? overview : ((name === "" ? undefined : ITEM_PAGES.get(page)) ?? PAGES.get(page) ?? missing);

/** Only for a server in a group. */
export const GROUP_PAGE = "group";

interface BarLink {
  readonly page: string;
  readonly label: string;
  readonly key: string;
  /** Permission that the page needs. */
  readonly may?: string;
}

/** Navigation on the left, with the key to press after `g`. */
export const BAR: readonly BarLink[] = [
  { page: "", label: "Overview", key: "o" },
  { page: "tubes", label: "Tubes", key: "t" },
  { page: "connections", label: "Connections", key: "c" },
  { page: "schedules", label: "Schedules", key: "h" },
  { page: "batches", label: "Batches", key: "b" },
  { page: "log", label: "Log", key: "l" },
  { page: GROUP_PAGE, label: "Group", key: "r" },
  { page: "server", label: "Server", key: "s" },
  { page: "audit", label: "Audit", key: "a", may: "manage" },
];

/** Parses "#/tubes/mail?state=buried". */
export function placeOf(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page = "", ...rest] = path.split("/");
  let name = rest.join("/");
  try {
    name = decodeURIComponent(name);
  } catch {
    // A malformed address typed by hand is kept as it is.
  }
  return { page, name, query: new URLSearchParams(query) };
}

/**
 * Returns the search field of the header: a number is the id of a job, anything else a text that
 * occurs in bodies of jobs or in names of tubes.
 */
export function findBox({ page, query }: Place): Part {
  const find = (event: SubmitEvent): void => {
    event.preventDefault();
    const { value } = (event.target as HTMLFormElement).elements.namedItem("find") as HTMLInputElement;
    const text = value.trim();
    if (text === "") return;
    location.hash = /^\d{1,15}$/.test(text) ? `#/jobs/${Number(text)}` : findLink(text);
  };
  return html`<form class="find" role="search" @submit=${find}>
    <input id="find" name="find" type="search" maxlength="200" autocomplete="off" spellcheck="false"
      aria-label="Job id, or text in any tube" placeholder="job id, or text in any tube" title="f"
      .value=${page === "find" ? (query.get("text") ?? "") : ""}>
  </form>`;
}
