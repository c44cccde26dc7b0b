// A card with a list that its page fetches, a page of the list at a time.

import { html, nothing } from "lit-html";
import { heldList } from "./held-list.ts";
import type { PageContext } from "./page-context.ts";
import { empty, type Part } from "./parts.ts";
import type { ListPage, Refused } from "./view-types.ts";

const DOCS = "https://github.com/runnerbean/runnerbean/blob/main/docs/";

export interface FetchedList<Row> {
  readonly title: string;
  readonly table: (rows: readonly Row[]) => Part;
  /** Above the table. */
  readonly bar?: Part;
  /** Without any row: what to say, a command that makes one, and its documentation. */
  readonly none: { readonly words: string; readonly command: string; readonly docs: string };
}

export function fetchedList<Row>(context: PageContext, { title, table, bar, none }: FetchedList<Row>): Part {
  const { query } = context.place;
  const page = context.fetched as ListPage<Row> | Refused | undefined;
  const show = (): Part => {
    if (page === undefined) return html`<p class="quiet">…</p>`;
    if ("status" in page) return empty(page.detail);
    const { list, heldSeconds } = heldList(context.fetchedFrom, page);
    return html`
      ${heldSeconds === 0 ? nothing : html`<p class="quiet">The list is ${heldSeconds} s old.</p>`}
      ${list.items.length > 0 && bar !== undefined ? bar : nothing}
      ${list.items.length > 0 ? table(list.items) : query.has("cursor") ? empty("No more.") : noRow(none)}
      ${pager(list.cursor, context)}`;
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

function pager(cursor: string | null, context: PageContext): Part {
  const isLater = context.place.query.has("cursor");
  if (cursor === null && !isLater) return nothing;
  const button = (label: string, to: string): Part =>
    html`<button class="button" type="button" @click=${() => context.go({ cursor: to })}>${label}</button>`;
  return html`<div class="bar">
    ${cursor === null ? nothing : button("Show more", cursor)} ${isLater ? button("From the start", "") : nothing}
  </div>`;
}
