// A job's body as text, formatted JSON or hex.

import { html, nothing } from "lit-html";
import { say } from "../parts/dialog.ts";
import { exact } from "../parts/format.ts";
import type { PageContext } from "../parts/page-context.ts";
import type { Part } from "../parts/parts.ts";
import type { JobRow } from "../parts/view-types.ts";
import { HEX_BYTES_MAX, hexRows, setOut } from "./body-forms.ts";

const FORMS = ["text", "json", "hex"] as const;
type Form = (typeof FORMS)[number];
const LABELS: Readonly<Record<Form, string>> = { text: "Text", json: "JSON", hex: "Hex" };
/** Available forms: text if it is UTF-8, JSON if it is complete and valid, and always the bytes. */
interface Forms {
  readonly id: number;
  readonly truncated: boolean;
  readonly bytes: Uint8Array;
  readonly text: string | undefined;
  readonly json: string | undefined;
}

/** Cached, since a body never changes. */
let last: Forms | undefined;

function formsOf(job: JobRow): Forms {
  if (last?.id === job.id && last.truncated === job.truncated && last.text === job.body) return last;
  const text = job.body;
  const bytes = text === undefined ? fromBase64(job.bodyBase64 ?? "") : new TextEncoder().encode(text);
  last = {
    id: job.id,
    truncated: job.truncated,
    bytes,
    text,
    json: job.truncated ? undefined : setOut(text),
  };
  return last;
}

const fromBase64 = (text: string): Uint8Array =>
  Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

export function bodyCard(job: JobRow, context: PageContext): Part {
  return html`<section class="card" aria-labelledby="body">
    <h2 id="body">Body <small>${exact(job.bytes)} bytes</small></h2>
    ${
      context.may("bodies")
        ? "body" in job || "bodyBase64" in job
          ? shown(job, context)
          : html`<p class="quiet">…</p>`
        : html`<p class="quiet">Your role does not see bodies of jobs.</p>`
    }
  </section>`;
}

function shown(job: JobRow, context: PageContext): Part {
  const forms = formsOf(job);
  const can = { text: forms.text !== undefined, json: forms.json !== undefined, hex: true };
  const asked = context.place.query.get("as");
  const usual: Form = can.json ? "json" : can.text ? "text" : "hex";
  const form = FORMS.find((each) => each === asked && can[each]) ?? usual;
  const text = form === "json" ? forms.json! : form === "text" ? forms.text! : hexRows(forms.bytes);
  const isCut = form === "hex" && forms.bytes.length > HEX_BYTES_MAX;
  const bytes = exact(isCut ? HEX_BYTES_MAX : forms.bytes.length);
  return html`<div class="bar">
      <div class="group" role="group" aria-label="Shown as">
        ${FORMS.map(
          (
            each,
          ) => html`<button class="button" type="button" aria-pressed=${each === form} ?disabled=${!can[each]}
            @click=${() => context.go({ as: each === usual ? "" : each })}>${LABELS[each]}</button>`,
        )}
      </div>
      ${can.text ? nothing : html`<span class="quiet">bytes that are no text</span>`}
      ${form === "json" ? html`<span class="quiet">line by line; each value as it was put</span>` : nothing}
      <span class="actions">
        ${navigator.clipboard === undefined ? nothing : html`<button class="button" type="button" @click=${() => copy(text)}>Copy</button>`}
        <a class="button" href="v1/jobs/${job.id}/body" download="job-${job.id}">Download</a>
      </span>
    </div>
    <pre class="body ${form}" tabindex="0" role="region" aria-label="Body">${text}</pre>
    ${job.truncated || isCut ? html`<p class="quiet">The first ${bytes} bytes are shown; a download has all.</p>` : nothing}`;
}

async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say("The body is copied, as it is shown.");
  } catch {
    say("The browser does not permit to copy it.", true);
  }
}
