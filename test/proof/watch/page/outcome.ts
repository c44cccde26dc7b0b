// What a run has found so far, in words.

import { html, type TemplateResult } from "lit-html";
import type { FaultAt, WatchedResult } from "../control.ts";

interface Outcome {
  readonly seed: number;
  readonly steps: number;
  readonly bug: string;
  readonly faults: readonly FaultAt[];
  readonly result: WatchedResult | undefined;
  readonly searching: number | undefined;
}

const grouped = (value: number): string => value.toLocaleString("en");

export function outcomeOf(outcome: Outcome): TemplateResult {
  const { result, searching, bug } = outcome;
  if (result === undefined) {
    const what =
      searching === undefined
        ? "Nothing found so far: the server does what the model says."
        : `Looking for a seed at which the model notices that ${bug}: seed ${searching}.`;
    return html`<p class="outcome" id="outcome" data-state="running">${what}</p>`;
  }
  return result.found === undefined ? nothingFound(outcome, result) : found(outcome, result, result.found);
}

function nothingFound({ seed, steps, bug, faults }: Outcome, result: WatchedResult): TemplateResult {
  const { schedulerSteps, processes, clients, digest } = result;
  const isPlain = bug === "" && faults.length === 0;
  return html`<p class="outcome well" id="outcome" data-state="well" data-digest=${digest} data-steps=${schedulerSteps}>
    <b>Nothing found${bug === "" ? "" : ": this seed does not show the bug"}</b>
    ${grouped(schedulerSteps)} steps of threads, ${processes} ${processes === 1 ? "process" : "processes"},
    ${clients} clients; digest of all steps and replies <code>${digest}</code>.
    ${isPlain ? html`In Node: <code>npm run simulate -- --seed ${seed} --steps ${steps}</code>` : ""}
  </p>`;
}

function found({ bug }: Outcome, result: WatchedResult, what: string): TemplateResult {
  const lines = what.split("\n");
  const first = lines[0] ?? "";
  const last = lines.findIndex((line) => line.startsWith("  last: "));
  const [shown, acts] = last < 0 ? [lines, []] : [lines.slice(0, last), lines.slice(last)];
  return html`<div class="outcome found" id="outcome" data-state="found" data-digest=${result.digest} data-what=${first}>
    <b>${bug === "" ? "The server and the model disagree" : "Found: the model disagrees"}</b>
    ${bug === "" ? "" : html`<p>Planted: ${bug}.</p>`}
    <pre class="mono">${shown.join("\n")}</pre>
    ${acts.length === 0 ? "" : html`<details><summary>The last acts</summary><pre class="mono">${acts.join("\n")}</pre></details>`}
  </div>`;
}
