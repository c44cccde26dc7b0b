// Settings in effect for a tube, and what its policies have done so far.

import { html, nothing } from "lit-html";
import { CHANGED } from "../parts/dialog.ts";
import { exact } from "../parts/format.ts";
import type { PageContext } from "../parts/page-context.ts";
import { facts, type Part, tubePath } from "../parts/parts.ts";
import { SETTING_FIELDS, valueInWords } from "../parts/setting-fields.ts";

const REFRESH_MS = 10_000;

interface InEffect {
  readonly settings: Readonly<Record<string, { readonly value: number | string; readonly from: string }>>;
  readonly details: Readonly<Record<string, number>> | null;
}

interface Known {
  readonly tube: string;
  inEffect?: InEffect;
  /** Infinity while it is asked for. */
  atMs: number;
}

/** Of the tube that is shown. */
let known: Known | undefined;

window.addEventListener(CHANGED, () => {
  if (known !== undefined) known.atMs = Number.NEGATIVE_INFINITY;
});

export function tubeSettings(tube: string, context: PageContext): Part {
  if (known?.tube !== tube) known = { tube, atMs: Number.NEGATIVE_INFINITY };
  if (Date.now() - known.atMs > REFRESH_MS) void load(known, context.redraw);
  const { inEffect } = known;
  if (inEffect === undefined) return nothing;
  const { settings, details } = inEffect;
  const rows = SETTING_FIELDS.flatMap((field): [string, Part][] => {
    const setting = settings[field.name];
    if (setting === undefined) return [];
    const from = setting.from === tube ? nothing : html` <span class="quiet">from ${setting.from}</span>`;
    return [[field.label, html`${valueInWords(field, setting.value)}${from}`]];
  });
  return html`<section class="card" aria-labelledby="settings">
    <div class="heading">
      <h2 id="settings">Settings <small>in effect for this tube</small></h2>
      ${
        context.may("manage")
          ? html`<button class="button" type="button" @click=${() => context.act((actions) => actions.changeSettings(tube))}>Change…</button>`
          : nothing
      }
    </div>
    ${
      rows.length === 0
        ? html`<p class="quiet">None: no limits, and jobs are tried again without end.</p>`
        : facts(rows)
    }
    ${details === null ? nothing : counts(details)}
  </section>`;
}

const COUNTED: readonly (readonly [key: string, words: string])[] = [
  ["dead", "died"],
  ["expired", "expired"],
  ["duplicates", "duplicates refused"],
  ["rejected", "refused for want of room"],
  ["movedIn", "moved in"],
  ["movedOut", "moved out"],
  ["groups", "groups"],
  ["groupsBlocked", "groups at their limit"],
];

/** Only what has happened. */
function counts(details: Readonly<Record<string, number>>): Part {
  const said = COUNTED.filter(([key]) => (details[key] ?? 0) > 0).map(
    ([key, words]) => `${exact(details[key]!)} ${words}`,
  );
  return said.length === 0 ? nothing : html`<p class="quiet">So far: ${said.join(", ")}.</p>`;
}

async function load(its: Known, redraw: () => void): Promise<void> {
  its.atMs = Number.POSITIVE_INFINITY;
  try {
    // The name "." or ".." can't be part of a path; tubePath knows.
    const response = await fetch(tubePath(its.tube, "", "missing=zero").replace(/\/(?=$|\?)/, ""));
    if (response.ok) its.inEffect = (await response.json()) as InEffect;
  } catch {
    // The page shows that the connection is lost.
  }
  its.atMs = Date.now();
  redraw();
}
