// Actions on schedules and batches.

import { html } from "lit-html";
import { type BatchJobs, batchPath, jobsOfBatch } from "./batch-jobs.ts";
import { ask, tryAgain } from "./dialog.ts";
import { type Part, tubeLink } from "./elements.ts";
import { exact, jobs } from "./format.ts";
import { get, send } from "./request.ts";
import type { BatchRow } from "./view-types.ts";

/** Sends a change; the name goes into the query, because a path can't contain all names. */
const change = (kind: "schedules" | "batches", name: string, what: string): Promise<unknown> =>
  send("POST", `v1/${kind}/-/${what}?${new URLSearchParams({ name })}`);

export function pauseSchedule(name: string): void {
  ask({
    title: html`Pause the schedule <bdi>${name}</bdi>`,
    content: () =>
      html`<p>It puts no jobs until somebody resumes it, and runs until then are skipped. Jobs that it has put stay.</p>`,
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
    content: () => html`<p>It puts jobs again, from its next run on.</p>`,
    verb: () => "Resume",
    act: async () => {
      await change("schedules", name, "resume");
      return html`The schedule <bdi>${name}</bdi> is no longer paused.`;
    },
  });
}

export function runSchedule(name: string, tube: string): void {
  ask({
    title: html`Run the schedule <bdi>${name}</bdi> now`,
    content: () => html`<p>It puts one job into ${tube} at once. The next scheduled run stays as it is.</p>`,
    verb: () => "Run now",
    act: async () => {
      const { id } = (await change("schedules", name, "run")) as { id: number };
      return html`The schedule <bdi>${name}</bdi> has put <a href="#/jobs/${id}">job ${id}</a> into <a href=${tubeLink(tube)}>${tube}</a>.`;
    },
  });
}

/** State of a batch before a change. */
interface Known {
  readonly batch: BatchRow;
  readonly jobs: BatchJobs;
}

interface BatchAsking {
  readonly title: string;
  readonly verb: string;
  readonly isDangerous: boolean;
  readonly dismiss?: string;
  readonly says: (known: Known) => Part;
  readonly act: () => Promise<string>;
}

/** Counts the effects of the change, then asks for confirmation with them. */
function askBatch(name: string, { verb, says, ...asking }: BatchAsking): void {
  let known: Known | undefined;
  let fault = "";
  const count = async (): Promise<void> => {
    fault = "";
    try {
      const batch = (await get(batchPath(name))) as BatchRow;
      known = { batch, jobs: await jobsOfBatch(batch, get) };
    } catch (error) {
      fault = (error as Error).message;
    }
    redraw();
  };
  const again = (): void => {
    void count();
    redraw();
  };
  const redraw = ask({
    ...asking,
    content: () =>
      html`<p aria-live="polite">${fault !== "" ? tryAgain(fault, again) : known === undefined ? "Counting…" : says(known)}</p>`,
    verb: () => (known === undefined && fault === "" ? "Counting…" : verb),
    isReady: () => known !== undefined,
  });
  void count();
}

const members = (count: number): string => `${exact(count)} ${count === 1 ? "member" : "members"}`;
const waits = (count: number): string => (count === 1 ? "waits" : "wait");

/** Describes what happens to the jobs that wait for a batch. */
function endOf({ waiting, isWhole }: BatchJobs, { waiting: count }: BatchRow, isSuccess: boolean): string {
  if (count === 0) return "No job waits for it.";
  if (isSuccess) return `${jobs(count)} that ${waits(count)} for it will be ready.`;
  if (!isWhole)
    return "Jobs that wait for its success will be buried; those that wait for its end will be ready.";
  const any = waiting.filter(({ waitsForAny }) => waitsForAny).length;
  const success = waiting.length - any;
  const buried = `${jobs(success)} that ${waits(success)} for its success will be buried.`;
  const ready = `${jobs(any)} that ${waits(any)} for its end will be ready.`;
  return `${success === 0 ? "" : buried} ${any === 0 ? "" : ready}`;
}

/** Describes a commit: the batch takes no more members, and may be complete at once. */
function commitWords({ batch, jobs: its }: Known): Part {
  const { open, failed, waiting } = batch;
  const isSuccess = failed === 0;
  const outcome = isSuccess
    ? "a success"
    : `a failure, because ${exact(failed)} ${failed === 1 ? "has" : "have"} failed`;
  const end =
    open === 0
      ? `None is open, so it will be complete at once: ${outcome}.`
      : `It will be complete when no member is open; ${open === 1 ? "1 is" : `${exact(open)} are`} now.`;
  const condition = isSuccess && open > 0 && waiting > 0 ? "If none of them fails, " : "";
  return html`It has ${members(batch.members)} and will take no more. ${end}
    ${condition}${endOf(its, batch, isSuccess)} You can't undo this.`;
}

export function commitBatch(name: string): void {
  askBatch(name, {
    title: `Commit the batch ${name}`,
    verb: "Commit the batch",
    isDangerous: false,
    says: commitWords,
    act: async () => {
      const { state } = (await change("batches", name, "commit")) as BatchRow;
      return `The batch ${name} is ${state === "complete" ? "committed and complete" : "committed"}.`;
    },
  });
}

/** Describes the effect of a cancel on the members and on the waiting jobs. */
function cancelWords({ batch, jobs: its }: Known): Part {
  return html`${removedWords(batch, its)} ${endOf(its, batch, false)}`;
}

function removedWords({ open }: BatchRow, its: BatchJobs): string {
  if (open === 0) return "It has no open members.";
  if (!its.isWhole)
    return `Of its ${exact(open)} open members, those that no worker holds will be deleted; you can't undo this.`;
  const held = its.members.filter(({ state, death }) => state === "reserved" && death === null).length;
  const left = open - held;
  const deleted = left > 0 ? `${members(left)} will be deleted; you can't undo this. ` : "";
  if (held === 0) return deleted;
  return `${deleted}${members(held)} ${held === 1 ? "is with a worker, and ends when it is" : "are with workers, and end when they are"} done.`;
}

export function cancelBatch(name: string): void {
  askBatch(name, {
    title: `Cancel the batch ${name}`,
    verb: "Cancel the batch",
    isDangerous: true,
    dismiss: "Keep it",
    says: cancelWords,
    act: async () => {
      const { state, open: left } = (await change("batches", name, "cancel")) as BatchRow;
      return `The batch ${name} is cancelled.${state === "complete" ? "" : ` Workers still hold ${jobs(left)} of it.`}`;
    },
  });
}
