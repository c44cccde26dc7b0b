// Job page: live properties of the job, its body and its actions.

import { html, nothing } from "lit-html";
import { deathOf, failuresCard } from "../parts/failures.ts";
import { duration, exact } from "../parts/format.ts";
import type { PageContext } from "../parts/page-context.ts";
import { ago, empty, facts, findLink, folded, type Part, STATES, tubeLink } from "../parts/parts.ts";
import type { JobRow, Refused } from "../parts/view-types.ts";
import { batchLink } from "./batch-parts.ts";
import { bodyCard } from "./job-body.ts";

export function showJob({ job: found }: { readonly job: JobRow | null }, context: PageContext): Part {
  const { name } = context.place;
  if (found === null)
    return html`<div class="title"><h1>Job ${name}</h1></div>
      <section class="card">${empty("There is no such job: it was deleted, or never put.", html`<p><a href=${findLink(name)}>Look for “${name}” in the bodies of all jobs</a></p>`)}</section>`;
  // The page asks for none, which is not that it is empty.
  const { body: _none, ...job } = found;
  const body = bodyOf(context.fetched as JobRow | Refused | undefined, job);
  const state = STATES.find(({ name }) => name === job.state);
  return html`
    <div class="title">
      <h1>Job ${job.id}</h1>
      <span class="badge ${job.state}"><span aria-hidden="true">${state?.sign ?? ""}</span> ${job.state}</span>
      <span>in <a href=${tubeLink(job.tube)}>${job.tube}</a></span>
      ${context.may("manage") ? jobActions({ ...job, ...body }, context) : nothing}
    </div>
    <section class="card" aria-label="Figures">
      ${facts([
        ...sinceWhen(job),
        ["priority", exact(job.pri)],
        ["put", html`${ago(job.age)} ago`],
        ["delay", duration(job.delay)],
        ["time to run", duration(job.ttr)],
        ["attempts", exact(job.attempts)],
        ...policyFacts(job),
        ...(["reserves", "timeouts", "disconnects", "releases", "buries", "kicks"] as const).map(
          (key): [string, string] => [key, exact(job[key])],
        ),
      ])}
    </section>
    ${job.failures.length === 0 ? nothing : failuresCard(job.failures)}
    ${bodyCard({ ...job, ...body }, context, { path: `v1/jobs/${job.id}/body`, name: `job-${job.id}` })}
  `;
}

/** The view has no body. */
function bodyOf(fetched: JobRow | Refused | undefined, { id }: JobRow): Partial<JobRow> {
  if (fetched === undefined || !("id" in fetched) || fetched.id !== id) return {};
  const { body, bodyBase64, truncated } = fetched;
  return {
    truncated,
    ...(body === undefined ? {} : { body }),
    ...(bodyBase64 === undefined ? {} : { bodyBase64 }),
  };
}

function jobActions(job: JobRow, { act, may }: PageContext): Part {
  const { id, tube, state, body, truncated, pri, ttr } = job;
  const isReserved = state === "reserved";
  const button = (label: string, open: Parameters<PageContext["act"]>[0], tone = ""): Part =>
    html`<button class="button ${tone}" type="button" @click=${() => act(open)}>${label}</button>`;
  const of = { tube, state, ids: [id] };
  const buttons = html`
    ${state === "buried" || state === "delayed" ? button("Kick…", (actions) => actions.kickJob(id, tube)) : nothing}
    ${isReserved ? button("Release…", (actions) => actions.releaseJob(id, tube)) : nothing}
    ${
      may("put") && body !== undefined && !truncated
        ? button("Put again…", (actions) => actions.putJob(tube, { body, pri, ttr }))
        : nothing
    }
    ${isReserved ? nothing : button("Move…", (actions) => actions.moveJobs(of))}
    ${isReserved ? nothing : button("Update…", (actions) => actions.updateJobs(of))}
    ${button("Delete…", (actions) => actions.deleteJob(id, tube, isReserved), "bad")}`;
  return html`<div class="actions">${folded("Actions", buttons)}</div>`;
}

/** Returns the properties that come from the tube's policies and the put's options. */
function policyFacts(job: JobRow): [string, string | Part][] {
  const { origin, unique, group, expiresIn, batch } = job;
  return [
    ...(batch === null
      ? []
      : [["member of", html`<a href=${batchLink(batch)}>${batch}</a>`] as [string, Part]]),
    ...(origin === null
      ? []
      : [["died in", html`<a href=${tubeLink(origin)}>${origin}</a>: ${deathOf(job)}`] as [string, Part]]),
    ...(expiresIn === null ? [] : [["expires in", duration(expiresIn)] as [string, string]]),
    ...(unique === null ? [] : [["unique key", unique] as [string, string]]),
    ...(group === null ? [] : [["group", group] as [string, string]]),
  ];
}

/** Returns facts about the job's state: since when, for how long, and the holder. */
function sinceWhen(job: JobRow): [string, string | Part][] {
  const { state, timeLeft, holder, worker, readySince, buriedSince } = job;
  if (state === "ready") return [["ready for", ago(readySince)]];
  if (state === "buried") return [["buried for", ago(buriedSince)]];
  const left: [string, string] = ["time left", duration(timeLeft)];
  if (job.waitsFor !== null) {
    const label = job.waitsForAny ? "waits for the end of" : "waits for the success of";
    return [[label, html`<a href=${batchLink(job.waitsFor)}>${job.waitsFor}</a>`]];
  }
  if (state === "delayed") return [left];
  const who =
    holder === "lease"
      ? html`<bdi>${worker}</bdi>, over HTTP`
      : html`<a href="#/connections?state=holding&tube=${encodeURIComponent(job.tube)}">${worker}</a>`;
  return [["held by", who], left];
}
