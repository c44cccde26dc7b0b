// Freezes a list while the pointer or the focus is in its rows.

import { html, nothing, type TemplateResult } from "lit-html";
import { CHANGED } from "./dialog.ts";
import { empty, isLookedAt, type Part } from "./elements.ts";
import { exact } from "./format.ts";
import type { PageContext } from "./page-context.ts";
import type { JobRow, ListPage, Refused } from "./view-types.ts";

interface Held {
  readonly query: string;
  readonly list: unknown;
  readonly atMs: number;
}

/** The list of the current page; each page has only one. */
let held: Held | undefined;
/** The list from before a change. The next list replaces it at once. */
let passing: unknown;
/** The list that was passed last. */
let last: unknown;

window.addEventListener(CHANGED, () => {
  passing = last;
  held = undefined;
});

/** Returns the list to show. `query` is the request that returned the list. */
export function heldList<T>(query: string, list: T): { readonly list: T; readonly heldSeconds: number } {
  last = list;
  if (list === passing) return { list, heldSeconds: 0 };
  if (held?.query !== query || !isLookedAt()) {
    held = { query, list, atMs: performance.now() };
    return { list, heldSeconds: 0 };
  }
  const heldSeconds =
    list === held.list ? 0 : Math.max(1, Math.floor((performance.now() - held.atMs) / 1000));
  return { list: held.list as T, heldSeconds };
}

// A card with a list that its page fetches, a page of the list at a time.

const DOCS = "https://github.com/runnerbean/runnerbean/blob/main/docs/";

interface FetchedList<Row> {
  readonly title: string;
  readonly table: (rows: readonly Row[]) => Part;
  /** The searched fields, and the states to choose from, by value. */
  readonly filter: { readonly text: string; readonly states: readonly (readonly [string, string])[] };
  /** Above the table. */
  readonly bar?: Part;
  /** For an empty list: a text, a command that adds a row, and its documentation. */
  readonly none: { readonly words: string; readonly command: string; readonly docs: string };
}

export function fetchedList<Row>(
  context: PageContext,
  { title, table, filter, bar, none }: FetchedList<Row>,
): Part {
  const { query } = context.place;
  const isFiltered = query.has("match") || query.has("state");
  const page = context.fetched as ListPage<Row> | Refused | undefined;
  const show = (): Part => {
    if (page === undefined) return html`<p class="quiet">…</p>`;
    if ("status" in page) return empty(page.detail);
    const { list, heldSeconds } = heldList(context.fetchedFrom, page);
    const hasNone = list.items.length === 0 && list.cursor === null && !query.has("cursor") && !isFiltered;
    if (hasNone) return noRow(none);
    return html`
      ${filterBar(filter, context)}
      ${heldSeconds === 0 ? nothing : html`<p class="quiet">The list is ${heldSeconds} s old.</p>`}
      ${list.items.length > 0 && bar !== undefined ? bar : nothing}
      ${list.items.length > 0 ? table(list.items) : empty(nothingFound(list.cursor, context))}
      ${pager(list, context)}`;
  };
  return html`<div class="title"><h1>${title}</h1></div>
    <section class="card" aria-label=${title}>${show()}</section>`;
}

const noRow = ({ words, command, docs }: FetchedList<never>["none"]): Part =>
  empty(
    words,
    html`<pre class="body">${command}</pre>
      <p><a href="${DOCS}${docs}" target="_blank" rel="noreferrer">How it works</a></p>`,
  );

function nothingFound(cursor: string | null, { place: { query } }: PageContext): string {
  if (cursor !== null) return "None of those examined so far matches.";
  return query.has("cursor") ? "No more." : "None matches.";
}

function filterBar({ text, states }: FetchedList<never>["filter"], context: PageContext): Part {
  const { query } = context.place;
  const change = ({ target }: Event): void =>
    context.goSoon(() => ({ match: (target as HTMLInputElement).value.trim(), cursor: "" }));
  const choose = ({ target }: Event): void =>
    context.go({ state: (target as HTMLSelectElement).value, cursor: "" });
  const chosen = query.get("state") ?? "";
  return html`<div class="bar">
    <label class="grow">
      <span class="hidden">Text in ${text}</span>
      <input type="search" placeholder="text in ${text}, or mail-*" maxlength="200" .value=${query.get("match") ?? ""} @input=${change}>
    </label>
    <label class="small">
      state
      <select @change=${choose}>
        <option value="">any</option>
        ${states.map(([value, label]) => html`<option value=${value} ?selected=${value === chosen}>${label}</option>`)}
      </select>
    </label>
  </div>`;
}

/** Returns the buttons to the next page of a list, and back to its start. */
export function pager<Row>({ items, cursor }: ListPage<Row>, context: PageContext): Part {
  const isLater = context.place.query.has("cursor");
  if (cursor === null && !isLater) return nothing;
  const button = (label: string, to: string): Part =>
    html`<button class="button" type="button" @click=${() => context.go({ cursor: to })}>${label}</button>`;
  return html`<div class="bar">
    ${cursor === null ? nothing : button(items.length === 0 ? "Look further" : "Show more", cursor)} ${isLater ? button("From the start", "") : nothing}
  </div>`;
}

// Column choice of a table, stored in the browser.

interface Choosable {
  readonly key: string;
  /** Name in the column choice. */
  readonly name: string;
  /** Shown by default. */
  readonly isUsual: boolean;
}

const STORED = "runnerbean.columns";

/** Returns the stored choices by table; empty if there are none or they are invalid. */
function stored(): Record<string, unknown> {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(STORED) ?? "{}");
    return typeof kept === "object" && kept !== null ? (kept as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function keysOf(table: string, columns: readonly Choosable[]): ReadonlySet<string> {
  const chosen = stored()[table];
  return new Set(
    Array.isArray(chosen)
      ? chosen.map(String)
      : columns.filter(({ isUsual }) => isUsual).map(({ key }) => key),
  );
}

export function shownColumns<C extends Choosable>(table: string, columns: readonly C[]): C[] {
  const keys = keysOf(table, columns);
  return columns.filter(({ key }) => keys.has(key));
}

/** Returns a button with a list of all columns. `onChange` redraws the table. */
export function columnChoice(
  table: string,
  columns: readonly Choosable[],
  onChange: () => void,
): TemplateResult {
  const keep = (keys: ReadonlySet<string> | undefined): void => {
    const { [table]: _before, ...others } = stored();
    const kept = keys === undefined ? others : { ...others, [table]: [...keys] };
    localStorage.setItem(STORED, JSON.stringify(kept));
    onChange();
  };
  const turn = (key: string, isOn: boolean): void => {
    const keys = new Set(keysOf(table, columns));
    if (isOn) keys.add(key);
    else keys.delete(key);
    keep(keys);
  };
  const keys = keysOf(table, columns);
  const choice = ({ key, name }: Choosable): Part => html`<label class="choice">
    <input type="checkbox" .checked=${keys.has(key)} @change=${(event: Event) =>
      turn(key, (event.target as HTMLInputElement).checked)}>${name}
  </label>`;
  return html`<details class="menu optional" @keydown=${closeByKey} @focusout=${closeBehind}>
    <summary class="button">Columns</summary>
    <fieldset class="menu-list">
      <legend class="hidden">Shown columns</legend>
      ${columns.map(choice)}
      <button class="button" type="button" @click=${() => keep(undefined)}>Reset</button>
    </fieldset>
  </details>`;
}

/** Escape closes the list and focuses its button. */
function closeByKey(event: KeyboardEvent): void {
  if (event.key !== "Escape") return;
  const menu = event.currentTarget as HTMLDetailsElement;
  menu.open = false;
  menu.querySelector("summary")?.focus();
}

/** A click or Tab elsewhere closes the list. */
function closeBehind(event: FocusEvent): void {
  const menu = event.currentTarget as HTMLDetailsElement;
  if (event.relatedTarget !== null && !menu.contains(event.relatedTarget as Node)) menu.open = false;
}

// Shared parts of lists of jobs: the beginning of a body, and a search that continues by itself.

/** Nothing was found so far, so the next page is requested automatically. */
export function searching(cursor: string, examined: number, context: PageContext): Part {
  // If the page is drawn again before the next answer arrives, the search has gone on already.
  if (context.place.query.get("cursor") !== cursor) queueMicrotask(() => context.go({ cursor }));
  return html`<p class="quiet" aria-live="polite">Still searching, after ${exact(examined)} jobs…</p>`;
}

const SHOWN_CHARACTERS = 120;

export function bodyStart({ body, bodyBase64 }: JobRow): Part {
  if (body === undefined)
    return html`<span class="quiet">${bodyBase64 === undefined ? "not shown" : "bytes that are not text"}</span>`;
  return html`<span class="mono" title=${body.slice(0, SHOWN_CHARACTERS)}>${body.slice(0, SHOWN_CHARACTERS)}${body.length > SHOWN_CHARACTERS ? "…" : ""}</span>`;
}
