// Shared parts of lists of jobs: the beginning of a body, and a search that continues by itself.

import { html } from "lit-html";
import { exact } from "./format.ts";
import type { PageContext } from "./page-context.ts";
import type { Part } from "./parts.ts";
import type { JobRow } from "./view-types.ts";

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
