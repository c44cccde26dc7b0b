// Reasons why jobs of a tube failed, each with the number of jobs, its first time and its workers.

import { html, nothing } from "lit-html";
import { Asked } from "../parts/asked.ts";
import { type FailureGroup, groupsOf, reasonOf, workersInWords } from "../parts/failures.ts";
import { exact } from "../parts/format.ts";
import type { PageContext } from "../parts/page-context.ts";
import { ago, type Part, tubePath } from "../parts/parts.ts";
import { send } from "../parts/request.ts";
import type { JobRow, JobsPage, TubeRow } from "../parts/view-types.ts";

const REFRESH_MS = 15_000;
/** The first jobs that were tried stand for all. The request leaves out their bodies. */
const SAMPLE = 500;
const ROWS_MAX = 8;

const tried = new Asked<JobsPage>(REFRESH_MS);

/** Returns nothing for a tube in which no job has failed. */
export function tubeFailures({ name, holdsDead, jobs, totals }: TubeRow, context: PageContext): Part {
  const failed = (["timeouts", "disconnects", "releases", "buries"] as const).some((key) => totals[key] > 0);
  if (!holdsDead && !failed && jobs.buried === 0) return nothing;
  const page = tried.last(name, () => triedJobs(name), context.redraw);
  const failures = page?.items.filter((job) => job.failures.length > 0) ?? [];
  if (page === undefined || failures.length === 0) return nothing;
  const groups = groupsOf(failures, ({ state }) => state, reasonOfLast);
  return html`<section class="card" aria-labelledby="why">
    <h2 id="why">Why jobs failed <small>${page.cursor === null ? "the last failure of each" : `of the first ${exact(page.items.length)} that were tried`}</small></h2>
    ${table(groups.slice(0, ROWS_MAX))}
    ${groups.length > ROWS_MAX ? html`<p class="quiet">${exact(groups.length - ROWS_MAX)} more reasons.</p>` : nothing}
  </section>`;
}

const reasonOfLast = ({ failures }: JobRow): string => reasonOf(failures[0]!);

const table = (
  groups: readonly FailureGroup[],
): Part => html`<div class="scroll" tabindex="0" role="region" aria-label="Why jobs failed">
  <table class="cards">
    <caption class="hidden">Reasons for failures, the most frequent first</caption>
    <thead>
      <tr>
        <th scope="col" class="left">reason</th><th scope="col">jobs</th><th scope="col" class="left">now</th><th scope="col">last</th>
        <th scope="col">first</th><th scope="col" class="left">workers</th>
      </tr>
    </thead>
    <tbody>
      ${groups.map(
        ({ label, reason, jobs, last, first, workers }) => html`<tr>
          <th scope="row" class="reason" title=${reason}>${reason}</th>
          <td data-label="jobs">${exact(jobs)}</td>
          <td class="left"><span class=${label}>${label}</span></td>
          <td data-label="last">${ago(last)} ago</td>
          <td data-label="first">${ago(first)} ago</td>
          <td class="left rest-line" data-label="workers" title=${[...workers].join(", ")}>${workersInWords(workers)}</td>
        </tr>`,
      )}
    </tbody>
  </table>
</div>`;

async function triedJobs(tube: string): Promise<JobsPage> {
  const asked = new URLSearchParams({ reservesFrom: "1", limit: `${SAMPLE}`, bodyMax: "0" });
  return (await send("GET", tubePath(tube, "jobs", `${asked}`))) as JobsPage;
}
