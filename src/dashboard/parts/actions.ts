// Actions of the pages' buttons: each one asks for confirmation, runs and reports the result.

import { html, nothing } from "lit-html";
import { named } from "./bulk.ts";
import { ask, input, numberField } from "./dialog.ts";
import { nameOf, tubePath } from "./elements.ts";
import { duration, exact, jobs } from "./format.ts";
import { isGone, send, type Task } from "./request.ts";
import { type InEffect, pausedBy } from "./setting-fields.ts";
import { pathOf as settingsPath } from "./settings-dialog.ts";

export * from "./bulk.ts";
export * from "./flow-actions.ts";
export { putJob } from "./put-job.ts";
export { changeSettings } from "./settings-dialog.ts";

const PAUSE_SECONDS = 600;

/** `mayLast`: whether the user may change settings, which pause for good. */
export function pauseTubes(tubes: readonly string[], mayLast: boolean): void {
  let isLasting = false;
  const it = tubes.length === 1 ? "it" : "them";
  const redraw = ask({
    title: `Pause ${named(tubes)}`,
    content:
      () => html`<p>No worker can reserve from ${it}. Reserved jobs stay with their workers, and puts continue.</p>
      ${isLasting ? nothing : numberField("seconds", "Seconds", PAUSE_SECONDS, 1)}
      ${mayLast ? html`<label class="choice"><input type="checkbox" name="lasting" @change=${toggle}>Until someone resumes ${it}, even after a restart</label>` : nothing}`,
    verb: () => "Pause",
    act: async (form) => {
      const seconds = isLasting ? 0 : Number(input(form, "seconds").value);
      const pause = (tube: string): Promise<unknown> =>
        isLasting
          ? send("PATCH", settingsPath(tube), { paused: "yes" })
          : send("PUT", tubePath(tube, "pause"), { seconds });
      const paused: string[] = [];
      for (const tube of tubes)
        await pause(tube).then(
          () => paused.push(tube),
          (error: Error) => {
            if (tubes.length === 1 || !isGone(error)) throw error;
          },
        );
      return pausedInWords(tubes, paused, isLasting ? "" : ` for ${duration(seconds)}`);
    },
  });
  function toggle({ target }: Event): void {
    isLasting = (target as HTMLInputElement).checked;
    redraw();
  }
}

function pausedInWords(tubes: readonly string[], paused: readonly string[], period: string): string {
  const [is, it] = paused.length === 1 ? ["is", "it"] : ["are", "them"];
  const gone = tubes.length - paused.length;
  const others = gone === 0 ? "" : ` ${exact(gone)} ${gone === 1 ? "is" : "are"} gone.`;
  return `${named(paused)} ${is} paused${period === "" ? ` until someone resumes ${it}` : period}.${others}`;
}

/** `by` is the pattern, or the tube itself, whose setting pauses it; undefined without one. */
export function resumeTube(tube: string, by: string | undefined): void {
  ask({
    title: `Resume ${tube}`,
    content: () => html`<p>Workers can reserve its ready jobs again at once.</p>
      ${
        by === undefined || by === tube
          ? nothing
          : html`<p>The setting “paused” of ${nameOf(by)} pauses it. This sets it to “no” for ${nameOf(tube)} alone: the other tubes stay paused, and a later pause of ${nameOf(by)} leaves this one out.</p>`
      }`,
    verb: () => "Resume",
    act: async () => {
      if (by !== undefined) await endLastingPause(tube, by);
      await send("DELETE", tubePath(tube, "pause"));
      return `${tube} is no longer paused.`;
    },
  });
}

/** Removes the tube's own setting. If a pattern pauses the tube, too, sets it to "no". */
async function endLastingPause(tube: string, by: string): Promise<void> {
  if (by === tube) {
    await send("PATCH", settingsPath(tube), { paused: null });
    const { settings } = (await send("GET", tubePath(tube))) as { readonly settings: InEffect };
    if (pausedBy(settings) === undefined) return;
  }
  await send("PATCH", settingsPath(tube), { paused: "no" });
}

// --- Job, connection ---

export function deleteJob(id: number, tube: string, isReserved: boolean): void {
  ask({
    title: `Delete job ${id}`,
    content: () => html`<p>
      This deletes job ${id} of ${tube} with its body; you can't undo it.
      ${isReserved ? html`<b>A worker holds it</b>, and finds out only when it finishes.` : nothing}
    </p>`,
    verb: () => "Delete",
    isDangerous: true,
    act: async () => {
      await send("DELETE", `v1/jobs/${id}${isReserved ? "?force=true" : ""}`);
      return `Job ${id} of ${tube} is deleted.`;
    },
  });
}

export function cancelJob(id: number, tube: string, isReserved: boolean): void {
  ask({
    title: `Cancel job ${id}`,
    content: () => html`<p>
        ${
          isReserved
            ? `The worker of job ${id} of ${tube} is told to stop at its next touch-job. If it deletes the job anyway, the job is done. Otherwise the job is removed and never comes back.`
            : `This removes job ${id} of ${tube}; you can't undo it.`
        }
      </p>
      ${isReserved ? html`<label>Reason, for the worker <input name="reason" maxlength="200"></label>` : nothing}`,
    verb: () => "Cancel the job",
    dismiss: "Keep it",
    isDangerous: true,
    act: async (form) => {
      const reason = isReserved ? input(form, "reason").value : "";
      const { held } = (await send("POST", `v1/jobs/${id}/cancel`, { reason })) as { readonly held: boolean };
      return held
        ? `Job ${id} of ${tube} is cancelled: its worker is told at its next touch-job.`
        : `Job ${id} of ${tube} is cancelled and gone.`;
    },
  });
}

export function kickJob(id: number, tube: string): void {
  ask({
    title: `Kick job ${id}`,
    content: () => html`<p>Job ${id} of ${tube} becomes ready for any worker.</p>`,
    verb: () => "Kick",
    act: async () => {
      await send("POST", `v1/jobs/${id}/kick`);
      return `Job ${id} of ${tube} is ready again.`;
    },
  });
}

export function releaseJob(id: number, tube: string): void {
  ask({
    title: `Release job ${id}`,
    content: () => html`<p>
      The worker that holds job ${id} of ${tube} loses it, as if its time to run had expired, and another worker may get it. If the first one is still working on it, the job is done twice.
    </p>`,
    verb: () => "Release",
    isDangerous: true,
    act: async () => {
      await send("POST", `v1/jobs/${id}/release`);
      return `Job ${id} of ${tube} was taken from its worker and is ready again.`;
    },
  });
}

export function drain(isOn: boolean): void {
  ask({
    title: isOn ? "Drain the server" : "Accept new jobs again",
    content: () => html`<p>
      ${
        isOn
          ? "It accepts no new jobs from now on: puts are answered DRAINING. Workers continue with the existing jobs."
          : "The server accepts puts again, as before."
      }
    </p>`,
    verb: () => (isOn ? "Drain" : "Accept new jobs"),
    isDangerous: isOn,
    act: async () => {
      await send(isOn ? "PUT" : "DELETE", "v1/server/drain");
      return isOn ? "The server is draining: it accepts no new jobs." : "The server accepts new jobs again.";
    },
  });
}

export function closeConnection(id: string, name: string | null, address: string, held: number): void {
  ask({
    title: "Close a connection",
    content: () => html`<p>
      The connection ${id} of ${name === null ? nothing : html`<b><bdi>${name}</bdi></b>, `}${address} closes once its pending commands are answered.
      ${held === 0 ? "It holds no jobs." : `The ${jobs(held)} that it holds ${held === 1 ? "becomes" : "become"} ready again.`}
    </p>`,
    verb: () => "Close it",
    isDangerous: true,
    act: async () => {
      await send("DELETE", `v1/connections/${encodeURIComponent(id)}`);
      return `Closed the connection ${id} of ${name === null ? "" : `${name}, `}${address}.`;
    },
  });
}

export function reload(): void {
  ask({
    title: "Reload the configuration",
    content: () => html`<p>
      The server reloads its file, tokens and certificates, as after SIGHUP: all of them or, if there is a fault, none.
    </p>`,
    verb: () => "Reload",
    act: async () => {
      const { changed, needsRestart } = (await send("POST", "v1/server/reload")) as Reloaded;
      const counts = changed.length === 0 ? "Nothing has changed." : `Now in effect: ${changed.join(", ")}.`;
      return needsRestart.length === 0
        ? counts
        : `${counts} A restart is needed for ${needsRestart.join(", ")}.`;
    },
  });
}

/** Keys of the configuration. */
interface Reloaded {
  readonly changed: readonly string[];
  readonly needsRestart: readonly string[];
}

export function stopTask(id: string, act: string, tube: string): void {
  ask({
    title: `Stop the task ${id}`,
    content: () => html`<p>Its changes so far stay (${act} of ${tube}); all other jobs stay as they are.</p>`,
    verb: () => "Stop it",
    act: async () => {
      const { state, affected } = (await send("DELETE", `v1/tasks/${id}`)) as Task;
      const was = state === "cancelled" ? "stopped" : "done before it could be stopped";
      return `The task ${id} is ${was}: ${jobs(affected)}.`;
    },
  });
}
