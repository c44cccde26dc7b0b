// Table of the tubes where dead jobs of a tube died, and why, shown before a redrive.

import { html, nothing } from "lit-html";
import { Asked } from "./asked.ts";
import { tryAgain } from "./dialog.ts";
import { deathOf, type FailureGroup, groupsOf, reasonOf, workersInWords } from "./failures.ts";
import { exact } from "./format.ts";
import { ago, type Part, tubePath } from "./parts.ts";
import { type Step, send } from "./request.ts";
import type { JobRow, JobsPage } from "./view-types.ts";

/** The first dead jobs stand for all. The request leaves out their bodies. */
const SAMPLE = 1000;
const ROWS_MAX = 8;

/** Age from which the sample is refreshed, ms. */
const RENEW_MS = 60_000;

const asked = new Asked<JobsPage>(RENEW_MS);
/** Sample for the open dialog. */
let shown: Step | undefined;

/** Returns a table of origins and reasons; nothing until they are known. */
export function deadSummary(step: Step, redraw: () => void): Part {
  // More may have died since the last dialog.
  if (shown !== step) asked.outdate();
  shown = step;
  const key = JSON.stringify(step);
  const sample = asked.last(key, () => load(step), redraw);
  if (sample === undefined) return asked.hasFailed(key) ? failed(redraw) : nothing;
  if (sample.items.length === 0) return nothing;
  const rows = groups(sample.items);
  return html`${table(rows)}
    <p class="quiet">
      ${sample.cursor === null ? nothing : `Of the first ${exact(sample.items.length)}. `}${rows.length > ROWS_MAX ? `${exact(rows.length - ROWS_MAX)} more kinds. ` : nothing}They
      keep their ids, and get all their attempts again.
    </p>`;
}

function table(rows: readonly FailureGroup[]): Part {
  return html`<div class="scroll tall" tabindex="0" role="region" aria-label="Where they died, and why">
      <table>
        <caption class="hidden">Where they died, and why</caption>
        <thead><tr><th scope="col">back to</th><th scope="col" class="left">died because</th><th scope="col">jobs</th><th scope="col">last</th><th scope="col" class="left optional">workers</th></tr></thead>
        <tbody>
          ${rows.slice(0, ROWS_MAX).map(
            ({ label, reason, jobs, last, workers }) => html`<tr>
              <th scope="row">${label}</th><td class="left">${reason}</td><td>${exact(jobs)}</td><td class="one-line">${ago(last)} ago</td><td class="left optional one-line">${workersInWords(workers)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`;
}

function failed(redraw: () => void): Part {
  const again = (): void => {
    asked.outdate();
    redraw();
  };
  return html`<p class="quiet" role="status">
    ${tryAgain("The reasons why they died could not be loaded.", again)}
  </p>`;
}

async function load({ tube, where }: Step): Promise<JobsPage> {
  const query = new URLSearchParams({ dead: "true", limit: `${SAMPLE}`, bodyMax: "0" });
  for (const [key, value] of Object.entries(where ?? {})) query.set(key, `${value}`);
  return (await send("GET", tubePath(tube, "jobs", `${query}`))) as JobsPage;
}

const reasonOfDeath = (job: JobRow): string => {
  const [last] = job.failures;
  return last === undefined ? deathOf(job) : `${deathOf(job)}: ${reasonOf(last)}`;
};

/** Groups jobs by origin and reason. */
const groups = (items: readonly JobRow[]): FailureGroup[] =>
  groupsOf(items, ({ origin }) => origin ?? "where it died", reasonOfDeath);
