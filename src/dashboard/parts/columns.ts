// Column choice of a table, stored in the browser.

import { html, type TemplateResult } from "lit-html";
import type { Part } from "./parts.ts";

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

/** Returns the columns to show, in the order of the table. */
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
