// A card with a list that its page fetches, a page of the list at a time.

import { html, nothing } from "lit-html";
import { heldList } from "./held-list.ts";
import type { PageContext } from "./page-context.ts";
import { empty, type Part } from "./parts.ts";
import type { ListPage, Refused } from "./view-types.ts";

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

function pager<Row>({ items, cursor }: ListPage<Row>, context: PageContext): Part {
  const isLater = context.place.query.has("cursor");
  if (cursor === null && !isLater) return nothing;
  const button = (label: string, to: string): Part =>
    html`<button class="button" type="button" @click=${() => context.go({ cursor: to })}>${label}</button>`;
  return html`<div class="bar">
    ${cursor === null ? nothing : button(items.length === 0 ? "Look further" : "Show more", cursor)} ${isLater ? button("From the start", "") : nothing}
  </div>`;
}
