// Parts of the list of batches and of the page of one: its state and its progress.

import { html } from "lit-html";
import { exact } from "../parts/format.ts";
import type { Part } from "../parts/parts.ts";
import type { BatchRow } from "../parts/view-types.ts";

export const batchLink = (name: string): string => `#/batches/${encodeURIComponent(name)}`;

const STATES = {
  open: ["delayed", "◷", "open"],
  committed: ["reserved", "◔", "committed"],
  cancelled: ["buried", "◼", "cancelled, ends"],
} as const;
export const OUTCOMES = {
  success: ["ready", "✓", "complete: success"],
  failure: ["buried", "✖", "complete: failure"],
  cancelled: ["buried", "◼", "complete: cancelled"],
} as const;

/** Returns the tone, the sign and the words of a batch's state. */
export const stateOf = ({
  state,
  outcome,
}: BatchRow): readonly [tone: string, sign: string, words: string] =>
  state === "complete" ? OUTCOMES[outcome ?? "success"] : STATES[state];

/** Shows done and failed members as parts of a bar, and all numbers as text. */
export function progress({ members, done, failed, open, buried }: BatchRow): Part {
  const share = (count: number): string => `width:${((count / Math.max(1, members)) * 100).toFixed(1)}%`;
  // Set as properties, because the content security policy forbids style attributes.
  return html`<div class="meter parts" aria-hidden="true"><i .style=${share(done)}></i><i class="failed" .style=${share(failed)}></i></div>
    <span class="one-line">${exact(done)} done,</span>
    <span class="one-line ${failed > 0 ? "buried" : ""}">${exact(failed)} failed,</span>
    <span class="one-line">${exact(open)} open${buried > 0 ? ` (${exact(buried)} buried)` : ""}</span>`;
}
