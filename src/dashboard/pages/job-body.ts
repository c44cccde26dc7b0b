// The body of a job, or of a schedule, as text, formatted JSON or hex.

import { html, nothing } from "lit-html";
import { say } from "../parts/dialog.ts";
import type { Part } from "../parts/elements.ts";
import { exact } from "../parts/format.ts";
import type { PageContext } from "../parts/page-context.ts";
import type { BodyRow } from "../parts/view-types.ts";
import { HEX_BYTES_MAX, hexRows, setOut } from "./body-forms.ts";

const FORMS = ["text", "json", "hex"] as const;
type Form = (typeof FORMS)[number];
const LABELS: Readonly<Record<Form, string>> = { text: "Text", json: "JSON", hex: "Hex" };
/** Available forms: text if it is UTF-8, JSON if it is complete and valid, and always the bytes. */
interface Forms {
  readonly of: BodyRow;
  readonly bytes: Uint8Array;
  readonly text: string | undefined;
  readonly json: string | undefined;
}

/** Cached, since a body seldom changes. */
let last: Forms | undefined;

function formsOf(row: BodyRow): Forms {
  const { body: text, bodyBase64, truncated } = row;
  const { of } = last ?? {};
  if (of?.body === text && of?.bodyBase64 === bodyBase64 && of?.truncated === truncated) return last!;
  const bytes = text === undefined ? fromBase64(bodyBase64 ?? "") : new TextEncoder().encode(text);
  last = { of: row, bytes, text, json: truncated ? undefined : setOut(text) };
  return last;
}

const fromBase64 = (text: string): Uint8Array =>
  Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** `download` is the file that the button offers, if the whole body is available. */
export function bodyCard(row: BodyRow, context: PageContext, download?: Download): Part {
  const { bytes } = row;
  return html`<section class="card" aria-labelledby="body">
    <h2 id="body">Body <small>${exact(bytes)} ${bytes === 1 ? "byte" : "bytes"}</small></h2>
    ${
      context.may("bodies")
        ? "body" in row || "bodyBase64" in row
          ? shown(row, context, download)
          : html`<p class="quiet">…</p>`
        : html`<p class="quiet">Your role can't see the bodies of jobs.</p>`
    }
  </section>`;
}

interface Download {
  readonly path: string;
  readonly name: string;
}

function shown(row: BodyRow, context: PageContext, download: Download | undefined): Part {
  const forms = formsOf(row);
  const can = { text: forms.text !== undefined, json: forms.json !== undefined, hex: true };
  const asked = context.place.query.get("as");
  const usual: Form = can.json ? "json" : can.text ? "text" : "hex";
  const form = FORMS.find((each) => each === asked && can[each]) ?? usual;
  const text = form === "json" ? forms.json! : form === "text" ? forms.text! : hexRows(forms.bytes);
  return html`<div class="bar">
      <div class="group" role="group" aria-label="Shown as">
        ${FORMS.map(
          (
            each,
          ) => html`<button class="button" type="button" aria-pressed=${each === form} ?disabled=${!can[each]}
            @click=${() => context.go({ as: each === usual ? "" : each })}>${LABELS[each]}</button>`,
        )}
      </div>
      ${can.text ? nothing : html`<span class="quiet">bytes that are not text</span>`}
      ${form === "json" ? html`<span class="quiet">line by line; each value as it was put</span>` : nothing}
      <span class="actions">
        ${navigator.clipboard === undefined ? nothing : html`<button class="button" type="button" @click=${() => copy(text)}>Copy</button>`}
        ${download === undefined ? nothing : html`<a class="button" href=${download.path} download=${download.name}>Download</a>`}
      </span>
    </div>
    <pre class="body ${form}" tabindex="0" role="region" aria-label="Body">${text}</pre>
    ${cutWords(forms, form, download !== undefined)}`;
}

function cutWords({ of, bytes }: Forms, form: Form, hasDownload: boolean): Part {
  const isCut = form === "hex" && bytes.length > HEX_BYTES_MAX;
  if (!of.truncated && !isCut) return nothing;
  const shown = exact(isCut ? HEX_BYTES_MAX : bytes.length);
  return html`<p class="quiet">The first ${shown} bytes are shown${hasDownload ? "; a download has all" : ""}.</p>`;
}

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied the body as shown.");
  } catch {
    say("The browser does not permit copying it.", true);
  }
}
