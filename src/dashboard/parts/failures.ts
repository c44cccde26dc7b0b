// Why jobs failed: in words, as a table, and counted by reason.

import { html, nothing } from "lit-html";
import { ago, nameOf, type Part } from "./elements.ts";
import { exact } from "./format.ts";
import type { FailureRow, JobRow } from "./view-types.ts";

const CAUSES: Readonly<Record<string, string>> = {
  released: "released by its worker",
  buried: "buried by its worker",
  "timed-out": "its time to run expired",
  disconnected: "its worker's connection ended",
  expired: "it waited too long",
};

const DEATHS: Readonly<Record<string, string>> = {
  attempts: "attempts used up",
  expired: "expired",
};

const causeOf = ({ cause }: FailureRow): string => CAUSES[cause] ?? cause;

/** Why a job died. */
export const deathOf = ({ death }: JobRow): string => DEATHS[death ?? ""] ?? "–";

/** Returns the worker's reason, or what happened if it gave none. */
export const reasonOf = (failure: FailureRow): string => failure.reason ?? causeOf(failure);

/** Returns the last failure of a job in one line; nothing if it never failed. */
export function failureLine({ failures: [last] }: JobRow): Part {
  if (last === undefined) return nothing;
  return html`<div class="failure" title=${reasonOf(last)}>
    <span class="buried" aria-hidden="true">✖</span> <span class="hidden">Failed:</span> <bdi class="reason">${reasonOf(last)}</bdi>
    <span class="quiet one-line">${ago(last.age)} ago</span>
    ${last.worker === null ? nothing : html`<span class="quiet">on</span> ${nameOf(last.worker)}`}
  </div>`;
}

/** Shows why the last attempts failed, newest first. */
export function failuresCard(failures: readonly FailureRow[]): Part {
  return html`<section class="card" aria-labelledby="failures">
    <h2 id="failures">Last failures <small>newest first</small></h2>
    <div class="scroll" tabindex="0" role="region" aria-label="Last failures, as a table">
      <table class="cards">
        <caption class="hidden">Last failures, newest first</caption>
        <thead>
          <tr>
            <th scope="col" class="left">reason</th><th scope="col" class="left">what happened</th><th scope="col">attempt</th>
            <th scope="col">when</th><th scope="col" class="left">worker</th>
          </tr>
        </thead>
        <tbody>
          ${failures.map((failure) => {
            const { at, age, attempt, worker, reason } = failure;
            return html`<tr>
              <th scope="row" class="reason">${reason ?? html`<span class="quiet">none given</span>`}</th>
              <td class="left rest-line">${causeOf(failure)}</td>
              <td data-label="attempt">${attempt === 0 ? "–" : exact(attempt)}</td>
              <td><time datetime=${at}>${ago(age)} ago</time></td>
              <td class="left rest-line" data-label="worker">${worker === null ? "–" : nameOf(worker)}</td>
            </tr>`;
          })}
        </tbody>
      </table>
    </div>
  </section>`;
}

/** Jobs that failed for the same reason. */
export interface FailureGroup {
  readonly label: string;
  readonly reason: string;
  readonly workers: Set<string>;
  jobs: number;
  /** Age of the last failure, and of the first known one, s. */
  last: number;
  first: number;
}

/** Counts jobs by a label and their reason, the largest group first. */
export function groupsOf(
  items: readonly JobRow[],
  labelOf: (job: JobRow) => string,
  reasonOfJob: (job: JobRow) => string,
): FailureGroup[] {
  const found = new Map<string, FailureGroup>();
  for (const job of items) {
    const [label, reason] = [labelOf(job), reasonOfJob(job)];
    const key = JSON.stringify([label, reason]);
    const age = job.failures[0]?.age ?? job.age;
    const group = found.get(key) ?? { label, reason, workers: new Set(), jobs: 0, last: age, first: age };
    found.set(key, group);
    group.jobs++;
    group.last = Math.min(group.last, age);
    group.first = Math.max(group.first, age);
    const worker = job.failures[0]?.worker;
    if (worker != null) group.workers.add(worker);
  }
  return [...found.values()].sort((a, b) => b.jobs - a.jobs);
}

/** Names some workers, and counts the others. */
export function workersInWords(workers: ReadonlySet<string>): string {
  const [first, second, ...others] = workers;
  const named = [first, second].filter((each) => each !== undefined).join(", ");
  if (named === "") return "–";
  return others.length === 0 ? named : `${named} and ${exact(others.length)} more`;
}
