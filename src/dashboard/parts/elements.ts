// Building blocks of the pages.

import { html, nothing, type TemplateResult } from "lit-html";
import { repeat } from "lit-html/directives/repeat.js";
import { bytes, duration, exact, milliseconds, rate, short } from "./format.ts";
import type { Buckets, Health, JobCounts, JobRow, Load, LogView, TubeRow } from "./view-types.ts";

export type Part = TemplateResult | typeof nothing;

/** The states of a job, each with a sign, since colour must never be the only distinction. */
export const STATES: readonly { readonly name: keyof JobCounts; readonly sign: string }[] = [
  { name: "ready", sign: "▸" },
  { name: "reserved", sign: "◔" },
  { name: "delayed", sign: "◷" },
  { name: "buried", sign: "✖" },
];

/** Asked of `may`: whether the user's token isn't limited to some tubes. */
export const ALL_TUBES = "all tubes";

export const tubeLink = (name: string): string => `#/tubes/${encodeURIComponent(name)}`;

/** Returns a name that a client chose; if it is too long, its title has the rest. */
export const nameOf = (name: string): Part => html`<bdi class="name" title=${name}>${name}</bdi>`;

export const tubeAnchor = (tube: string): Part =>
  html`<a class="name" href=${tubeLink(tube)} title=${tube}>${tube}</a>`;

/** Returns the address of the page that looks for a text in all tubes. */
export const findLink = (text: string): string => `#/find?${new URLSearchParams({ text })}`;

/**
 * Returns the API path for a tube. A path can't contain "." and "..", so they go into the query.
 */
export function tubePath(name: string, what = "", query = ""): string {
  const isDots = name === "." || name === "..";
  const asked = [isDots ? `tube=${name}` : "", query].filter((each) => each !== "").join("&");
  const path = ["v1/tubes", isDots ? "-" : encodeURIComponent(name), what]
    .filter((each) => each !== "")
    .join("/");
  return `${path}${asked === "" ? "" : `?${asked}`}`;
}

export function tile(
  label: string | Part,
  value: string | Part,
  note: string | Part = nothing,
  title = "",
): Part {
  return html`<div class="tile">
    <dt>${label}</dt>
    <dd title=${title}><span>${value}</span>${note === nothing ? nothing : html`<small>${note}</small>`}</dd>
  </div>`;
}

export function stateTiles(jobs: JobCounts): Part[] {
  return STATES.map(({ name, sign }) =>
    tile(
      html`<span class="sign ${name}" aria-hidden="true">${sign}</span>${name}`,
      html`<span class=${name === "buried" && jobs.buried > 0 ? "buried" : ""}>${short(jobs[name])}</span>`,
      nothing,
      exact(jobs[name]),
    ),
  );
}

export interface Column {
  readonly key: string;
  /** Name in the column choice. */
  readonly name: string;
  /** Shown by default. */
  readonly isUsual: boolean;
  readonly label: string | Part;
  /** Hidden on all narrow screens, or only on those of phones. */
  readonly hides?: "optional" | "tablet";
  readonly cell: (tube: TubeRow) => string | Part;
  readonly isZero?: (tube: TubeRow) => boolean;
  readonly tone?: (tube: TubeRow) => string;
}

const count = (name: keyof JobCounts, sign: string): Column => ({
  key: name,
  name,
  isUsual: true,
  label: html`<span title=${name}><span class=${name} aria-hidden="true">${sign}</span> <span class="word">${name}</span></span>`,
  cell: ({ jobs }) => exact(jobs[name]),
  isZero: ({ jobs }) => jobs[name] === 0,
  tone: ({ jobs }) => (name === "buried" && jobs[name] > 0 ? "buried" : ""),
});

/** A paused tube needs none yet, and a dead-letter tube should have none. */
const lacksWorkers = ({ watchers, jobs, pause, holdsDead }: TubeRow): boolean =>
  watchers === 0 && jobs.ready > 0 && pause === null && !holdsDead;

export const COLUMNS: readonly Column[] = [
  ...STATES.map(({ name, sign }) => count(name, sign)),
  {
    key: "oldest",
    name: "oldest ready",
    isUsual: true,
    label: "oldest",
    cell: ({ oldestReady }) => ago(oldestReady),
    isZero: ({ oldestReady }) => oldestReady === null,
    tone: ({ oldestReady }) => ((oldestReady ?? 0) > 60 ? "delayed" : ""),
  },
  {
    key: "putsRate",
    name: "puts per second",
    isUsual: true,
    label: "in /s",
    hides: "optional",
    cell: ({ rates }) => rate(rates.puts),
    isZero: ({ rates }) => rates.puts === 0,
  },
  {
    key: "deletesRate",
    name: "deletes per second",
    isUsual: true,
    label: "out /s",
    hides: "optional",
    cell: ({ rates }) => rate(rates.deletes),
    isZero: ({ rates }) => rates.deletes === 0,
  },
  {
    key: "watchers",
    name: "watching",
    isUsual: true,
    label: "watching",
    hides: "tablet",
    cell: (tube) =>
      lacksWorkers(tube)
        ? html`<span title="Jobs are ready, but no worker watches">▲ 0</span>`
        : exact(tube.watchers),
    tone: (tube) => (lacksWorkers(tube) ? "buried" : ""),
    isZero: ({ watchers, jobs }) => watchers === 0 && jobs.ready === 0,
  },
  {
    key: "pause",
    name: "pause",
    isUsual: true,
    label: "pause",
    hides: "optional",
    cell: ({ pause }) => (pause === null ? "–" : pause.timeLeft === null ? "∞" : duration(pause.timeLeft)),
    isZero: ({ pause }) => pause === null,
  },
];

/** Those of a short list. */
export const SHORT_COLUMNS = COLUMNS.filter(({ key }) =>
  ["ready", "oldest", "putsRate", "deletesRate"].includes(key),
);
/** Where there is little room, the rates, by which they are sorted, matter more than the age. */
export const BUSIEST_COLUMNS = SHORT_COLUMNS.map(
  ({ hides: _either, ...column }): Column =>
    ["ready", "oldest"].includes(column.key) ? { ...column, hides: "optional" } : column,
);

interface Sorting {
  readonly sort: string;
  readonly order: string;
  readonly onSort: (key: string) => void;
}

export function tableHead(
  key: string,
  label: string | Part,
  hides: string,
  sorting: Sorting | undefined,
): Part {
  if (sorting === undefined) return html`<th scope="col" class=${hides}>${label}</th>`;
  const { sort, order, onSort } = sorting;
  const direction = sort === key ? (order === "asc" ? "ascending" : "descending") : nothing;
  const arrow = html` <span aria-hidden="true">${order === "asc" ? "↑" : "↓"}</span>`;
  return html`<th scope="col" class=${hides} aria-sort=${direction}>
    <button type="button" @click=${() => onSort(key)}>${label}${sort === key ? arrow : nothing}</button>
  </th>`;
}

/** Selection of rows. */
export interface Choice {
  /** Selected names or ids, until other rows are shown. */
  readonly selected: ReadonlySet<string>;
  select(keys: readonly string[], isSelected: boolean): void;
}

/** Returns the head of the selection column, which selects all shown rows or none. */
export function choiceHead(keys: readonly string[], { selected, select }: Choice): Part {
  const isAll = keys.length > 0 && keys.every((key) => selected.has(key));
  return html`<th scope="col" class="choose">
    <input type="checkbox" aria-label="All shown" .checked=${isAll}
      .indeterminate=${!isAll && keys.some((key) => selected.has(key))} @change=${() => select(keys, !isAll)}>
  </th>`;
}

export function choiceCell(key: string, label: string, { selected, select }: Choice): Part {
  return html`<td class="choose">
    <input type="checkbox" aria-label=${label} .checked=${selected.has(key)}
      @change=${(event: Event) => select([key], (event.target as HTMLInputElement).checked)}>
  </td>`;
}

const pausedSign = ({ pause }: TubeRow): Part =>
  pause === null
    ? nothing
    : html` <span class="delayed" title=${pause.timeLeft === null ? "paused until it is resumed" : `paused, ${duration(pause.timeLeft)} left`}>◷<span class="word"> paused</span></span>`;

/**
 * Returns a table of tubes. `sorting` turns its heads into buttons, `choice` makes rows selectable.
 */
export function tubeTable(
  tubes: readonly TubeRow[],
  caption: string,
  columns: readonly Column[] = COLUMNS,
  sorting?: Sorting,
  choice?: Choice,
): Part {
  return html`<div class="scroll names" tabindex="0" role="region" aria-label=${caption}>
    <table class=${sorting === undefined ? "" : "cards"}>
      <caption class="hidden">${caption}</caption>
      <thead>
        <tr>
          ${
            choice === undefined
              ? nothing
              : choiceHead(
                  tubes.map(({ name }) => name),
                  choice,
                )
          }
          ${tableHead("name", "tube", "", sorting)}
          ${columns.map(({ key, label, hides = "" }) => tableHead(key, label, hides, sorting))}
        </tr>
      </thead>
      <tbody>
        ${repeat(
          tubes,
          ({ name }) => name,
          (tube) => html`<tr>
            ${choice === undefined ? nothing : choiceCell(tube.name, tube.name, choice)}
            <th scope="row" title=${tube.name}>${tubeAnchor(tube.name)}${pausedSign(tube)}</th>
            ${columns.map(
              ({ name, cell, isZero, tone, hides = "", label }) =>
                html`<td data-label=${typeof label === "string" ? label : name} class="${hides} ${isZero?.(tube) === true ? "zero" : ""} ${tone?.(tube) ?? ""}">
                  ${cell(tube)}
                </td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

export function facts(rows: readonly (readonly [label: string, value: string | Part])[]): Part {
  return html`<dl class="facts">
    ${rows.map(([label, value]) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/** Returns a share as a bar. Text beside it must give the same value. */
export function meter(share: number): Part {
  // Sets a property, because the content security policy forbids style attributes.
  return html`<div class="meter" aria-hidden="true"><i .style=${`width:${Math.min(100, share * 100).toFixed(1)}%`}></i></div>`;
}

/** Returns how far a job is and what its worker says, nothing if it says nothing. */
export function saidLine({ progress, note, cancelled }: JobRow): Part {
  if (progress === null && note === null && cancelled === null) return nothing;
  return html`<div class="bar">
    ${progress === null ? nothing : html`${meter(progress / 100)} <span>${progress} %</span>`}
    ${note === null ? nothing : html`<bdi>${note}</bdi>`}
    ${cancelled === null ? nothing : html`<span class="buried">cancelled${cancelled === "" ? nothing : html`: <bdi>${cancelled}</bdi>`}</span>`}
  </div>`;
}

export function threadTable(threads: Load["load"]): Part {
  return html`<table>
    <caption class="hidden">CPU of each thread</caption>
    <thead><tr><th scope="col">thread</th><th scope="col">CPU</th><th scope="col" class="left"><span class="hidden">as a bar</span></th></tr></thead>
    <tbody>
      ${inGroups(threads).map(
        ({ name, cpu }) => html`<tr>
          <th scope="row">${name}</th><td>${Math.round(cpu * 100)} %</td><td class="left half">${meter(cpu)}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

/** Node's own threads share one row. */
const OF_NODE = /^(?:DelayedTaskSche|node-V8Worker|SignalInspector|libuv-worker)/;

/** The program's name, or Node's where the server can't set it. */
const MAIN_NAMES: ReadonlySet<string> = new Set(["runnerbean", "node-MainThread"]);

function inGroups(threads: Load["load"]): Load["load"] {
  const ours = threads.filter(({ name }) => !OF_NODE.test(name));
  const others = threads.filter(({ name }) => OF_NODE.test(name));
  const cpu = others.reduce((sum, each) => sum + each.cpu, 0);
  return [
    ...ours.map((each) => (MAIN_NAMES.has(each.name) ? { ...each, name: "main" } : each)),
    ...(others.length === 0 ? [] : [{ name: "Node's own", cpu }]),
  ];
}

/** Returns the elements of a chart, its sentence and its table, for charts.ts. */
export const chartPlace = (id: string): Part =>
  html`<div class="chart" id=${id}></div>
    <p class="quiet" id="${id}-words"></p>
    <div id="${id}-table"></div>`;

/** The part of a page's context that its scale needs. */
interface ScaledPage {
  readonly place: { readonly query: URLSearchParams };
  go(change: Readonly<Record<string, string>>): void;
}

/** Tells whether the page's charts are on a logarithmic scale. */
export const isLog = ({ place }: ScaledPage): boolean => place.query.get("scale") === "log";

/** Returns a button that turns the logarithmic scale on or off. */
export const scaleButton = (context: ScaledPage): Part => html`<button class="button" type="button"
  aria-pressed=${isLog(context)} title="A logarithmic scale: small values stay visible beside large ones"
  @click=${() => context.go({ scale: isLog(context) ? "" : "log" })}>Log scale</button>`;

/** Returns buttons that fold into a menu on narrow screens. */
export function folded(label: string, buttons: Part): Part {
  const turn = (head: Element, isOpen = head.getAttribute("aria-expanded") !== "true"): void => {
    head.setAttribute("aria-expanded", `${isOpen}`);
    head.nextElementSibling!.classList.toggle("menu-list", isOpen);
  };
  const close = (event: Event): void => turn((event.currentTarget as Element).firstElementChild!, false);
  const leave = (event: FocusEvent): void => {
    if (!(event.currentTarget as Node).contains(event.relatedTarget as Node)) close(event);
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key !== "Escape") return;
    close(event);
    ((event.currentTarget as Element).firstElementChild as HTMLElement).focus();
  };
  return html`<div class="fold" @focusout=${leave} @keydown=${press}>
    <button class="button" type="button" aria-expanded="false" @click=${(event: Event) => turn(event.currentTarget as Element)}>${label}</button>
    <div class="fold-list">${buttons}</div>
  </div>`;
}

/**
 * Returns the rows in the order that they had, while the pointer or the focus is in a table.
 * `query` is the request that returned them.
 */
export function inHeldOrder(
  table: string,
  query: string,
  items: readonly TubeRow[],
): { rows: readonly TubeRow[]; heldSeconds: number } {
  const held = orders.get(table);
  if (!isLookedAt() || held?.query !== query) {
    const places = new Map(items.map(({ name }, place) => [name, place]));
    orders.set(table, { query, places, atMs: performance.now() });
    return { rows: items, heldSeconds: 0 };
  }
  const place = ({ name }: TubeRow): number => held.places.get(name) ?? Number.MAX_SAFE_INTEGER;
  const rows = items.toSorted((a, b) => place(a) - place(b));
  const isOther = rows.some((row, index) => row !== items[index]);
  return { rows, heldSeconds: isOther ? Math.max(1, Math.floor((performance.now() - held.atMs) / 1000)) : 0 };
}

const orders = new Map<
  string,
  { readonly query: string; readonly places: ReadonlyMap<string, number>; readonly atMs: number }
>();

/** Tells whether the pointer or the focus is in a row. */
export const isLookedAt = (): boolean =>
  document.querySelector("main tbody:hover, main tbody:focus-within") !== null;

export function empty(sentence: string, more: Part = nothing): Part {
  return html`<div class="empty"><p>${sentence}</p>${more}</div>`;
}

/** The server's time when the last view came: clocks of browsers differ. */
let nowMs = Date.now();

export const serverNow = (): number => nowMs;

export function setNow(at: string): void {
  nowMs = Date.parse(at);
}

/** Returns an age, with the moment as its title. */
export function ago(seconds: number | null): Part {
  if (seconds === null) return html`–`;
  return html`<span title=${moment(nowMs - seconds * 1000)}>${duration(seconds)}</span>`;
}

/** Does the same for a moment in ISO 8601. */
export function agoSince(at: string): Part {
  const ms = Date.parse(at);
  return html`<time datetime=${at} title=${moment(ms)}>${duration(Math.max(0, nowMs - ms) / 1000)}</time>`;
}

/** Returns a moment in ISO 8601, for a timeline, and how long ago it was. */
export function whenAndAgo(at: string): Part {
  const ms = Date.parse(at);
  return html`<time class="one-line" datetime=${at}>${moment(ms)}</time>
    <span class="quiet one-line">${duration(Math.max(0, nowMs - ms) / 1000)} ago</span>`;
}

/** Returns the time from now to a moment in ISO 8601, and the moment. */
export function inTime(at: string): Part {
  const ms = Date.parse(at);
  const words = ms <= nowMs ? "now" : `in ${duration((ms - nowMs) / 1000)}`;
  return html`<span class="one-line">${words}</span> <time class="quiet one-line" datetime=${at}>${moment(ms)}</time>`;
}

const MOMENT = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium" });

/** 2026-11-22 03:11:02, in the user's time zone. */
export const moment = (ms: number): string => MOMENT.format(ms);

/** Shows how to put a first job to the first of the server's listeners. */
export function firstJob({ listeners }: Health): Part {
  const [, host, port] = /^\[?(.*?)\]?:(\d+)$/.exec(listeners[0] ?? "") ?? [];
  if (host === undefined) return nothing;
  const reached = host === "0.0.0.0" || host === "::" ? location.hostname : host;
  return html`<p>A first job, from a shell:</p>
    <pre class="body">printf 'put 0 0 60 5\\r\\nhello\\r\\nquit\\r\\n' | nc ${reached} ${port}</pre>`;
}

// --- Log ---

export const noLog = html`<div class="empty">
  <p>There is no log: jobs are only in memory, and are lost when the server ends.</p>
  <p>Start it with <code>-b DIR</code> to keep acknowledged changes.</p>
</div>`;

export function logFacts(log: LogView): Part {
  const written = log.live + log.dead;
  const share = written === 0 ? 0 : log.live / written;
  return html`${facts([
    ["on the disk", bytes(log.bytes)],
    ["live", `${bytes(log.live)}, ${Math.round(share * 100)} %`],
    ["dead", bytes(log.dead)],
    ["free in its files", bytes(log.spare)],
    ["files", exact(log.currentFile - log.oldestFile + 1)],
    ["99 % of syncs take", quantile(log.syncSeconds, 0.99)],
  ])}
    ${meter(share)}`;
}

/** Returns the upper bound of the bucket that contains the quantile. */
function quantile(buckets: Buckets, share: number): string {
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
