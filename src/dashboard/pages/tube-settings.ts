// Settings in effect for a tube, and the effects of its policies so far.

import { html, nothing } from "lit-html";
import { exact } from "../parts/format.ts";
import type { PageContext } from "../parts/page-context.ts";
import { ALL_TUBES, facts, type Part } from "../parts/parts.ts";
import { SETTING_FIELDS, valueInWords } from "../parts/setting-fields.ts";
import type { InEffect } from "../parts/settings-dialog.ts";

export interface SettingsOfTube {
  readonly settings: InEffect;
  readonly details: Readonly<Record<string, number>> | null;
}

export function tubeSettings(
  { name: tube, settings, details }: SettingsOfTube & { readonly name: string },
  context: PageContext,
): Part {
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
        context.may("manage") && context.may(ALL_TUBES)
          ? html`<button class="button" type="button" @click=${() => context.act((actions) => actions.changeSettings(tube, settings))}>Change…</button>`
          : nothing
      }
    </div>
    ${
      rows.length === 0
        ? html`<p class="quiet">None: no limits, and jobs are retried forever.</p>`
        : facts(rows)
    }
    ${details === null ? nothing : counts(details)}
  </section>`;
}

const COUNTED: readonly (readonly [key: string, words: string])[] = [
  ["dead", "died"],
  ["expired", "expired"],
  ["duplicates", "duplicates refused"],
  ["rejected", "refused by a limit"],
  ["movedIn", "moved in"],
  ["movedOut", "moved out"],
  ["groups", "groups"],
  ["groupsBlocked", "groups at their limit"],
];

/** Only counts above 0. */
function counts(details: Readonly<Record<string, number>>): Part {
  const said = COUNTED.filter(([key]) => (details[key] ?? 0) > 0).map(
    ([key, words]) => `${exact(details[key]!)} ${words}`,
  );
  return said.length === 0 ? nothing : html`<p class="quiet">So far: ${said.join(", ")}.</p>`;
}
