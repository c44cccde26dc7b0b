// Actions on schedules and batches.

import { html, nothing } from "lit-html";
import { ask } from "./dialog.ts";
import { jobs } from "./format.ts";
import { tubeLink } from "./parts.ts";
import { send } from "./request.ts";
import type { BatchRow } from "./view-types.ts";

/** Sends a change; the name goes into the query, because a path can't contain all names. */
const change = (kind: "schedules" | "batches", name: string, what: string): Promise<unknown> =>
  send("POST", `v1/${kind}/-/${what}?${new URLSearchParams({ name })}`);

export function pauseSchedule(name: string): void {
  ask({
    title: html`Pause the schedule <bdi>${name}</bdi>`,
    content: () =>
      html`<p>It puts no jobs until somebody resumes it, and its times until then are skipped. Jobs that it has put stay.</p>`,
    verb: () => "Pause",
    act: async () => {
      await change("schedules", name, "pause");
      return html`The schedule <bdi>${name}</bdi> is paused.`;
    },
  });
}

export function resumeSchedule(name: string): void {
  ask({
    title: html`Resume the schedule <bdi>${name}</bdi>`,
    content: () => html`<p>It puts jobs again, from its next time on.</p>`,
    verb: () => "Resume",
    act: async () => {
      await change("schedules", name, "resume");
      return html`The schedule <bdi>${name}</bdi> is not paused any more.`;
    },
  });
}

export function runSchedule(name: string, tube: string): void {
  ask({
    title: html`Run the schedule <bdi>${name}</bdi> now`,
    content: () => html`<p>It puts one job into ${tube} at once. Its next time stays.</p>`,
    verb: () => "Run now",
    act: async () => {
      const { id } = (await change("schedules", name, "run")) as { id: number };
      return html`The schedule <bdi>${name}</bdi> has put <a href="#/jobs/${id}">job ${id}</a> into <a href=${tubeLink(tube)}>${tube}</a>.`;
    },
  });
}

export function cancelBatch(name: string, open: number): void {
  ask({
    title: `Cancel the batch ${name}`,
    content: () => html`<p>
      ${open === 0 ? "It has no open members." : `Of its ${jobs(open)} that have not ended, those that no worker holds are deleted; there is no way back.`}
      Jobs that wait for its success are buried, and jobs that wait for its end are ready.
    </p>`,
    verb: () => "Cancel the batch",
    isDangerous: true,
    act: async () => {
      const { state, open: left } = (await change("batches", name, "cancel")) as BatchRow;
      return html`The batch ${name} is cancelled.${state === "complete" ? nothing : ` Workers hold ${jobs(left)} of it still.`}`;
    },
  });
}
