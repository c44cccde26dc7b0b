// What the pages' buttons do: each asks first, does it, and says what was done.

import { html, nothing } from "lit-html";
import { ask } from "./dialog.ts";
import { duration, exact } from "./format.ts";
import type { Part } from "./parts.ts";
import { send, sendBulk, type Task, tubePath } from "./request.ts";

const PAUSE_SECONDS = 600;
/** From so many jobs on, the name of the tube is to be typed. */
const TYPED_FROM_JOBS = 100;

const jobs = (count: number): string => `${exact(count)} ${count === 1 ? "job" : "jobs"}`;
const input = (form: HTMLFormElement, name: string): HTMLInputElement =>
  form.elements.namedItem(name) as HTMLInputElement;
const numberField = (name: string, label: string, value: number, from: number): Part => html`<label>
  ${label}
  <input name=${name} type="number" min=${from} max="4294967295" step="1" required .defaultValue=${`${value}`}>
</label>`;

// --- a tube ---------------------------------------------------------------------------------------------------

export function putJob(tube: string): void {
  const redraw = ask({
    title: "Put a job",
    content: () => html`
      <label>Tube <input name="tube" required maxlength="200" .defaultValue=${tube}></label>
      <div class="fields">
        ${numberField("pri", "Priority", 1024, 0)} ${numberField("delay", "Delay, s", 0, 0)} ${numberField("ttr", "Time to run, s", 60, 1)}
      </div>
      <label>Body <textarea name="body" rows="6" spellcheck="false" @input=${() => redraw()}></textarea></label>
      <p class="quiet" aria-live="polite">${bodyInWords()}</p>
    `,
    verb: () => "Put",
    act: async (form) => {
      const name = input(form, "tube").value;
      const number = (field: string): number => Number(input(form, field).value);
      const { id } = (await send("POST", tubePath(name, "jobs"), {
        body: input(form, "body").value,
        pri: number("pri"),
        delay: number("delay"),
        ttr: number("ttr"),
      })) as { id: number };
      return html`Put as <a href="#/jobs/${id}">job ${id}</a> into ${name}.`;
    },
  });
}

/** How long the body is, and whether it is JSON. */
function bodyInWords(): string {
  const text = document.querySelector<HTMLTextAreaElement>('dialog textarea[name="body"]')?.value ?? "";
  const size = `${exact(new TextEncoder().encode(text).length)} bytes`;
  if (!/^\s*[[{"]/.test(text)) return size;
  try {
    JSON.parse(text);
    return `${size}, valid JSON`;
  } catch {
    return `${size}, no valid JSON`;
  }
}

export function pauseTube(tube: string): void {
  ask({
    title: `Pause ${tube}`,
    content:
      () => html`<p>Nobody reserves from it for a while. Jobs that are reserved are not touched, and puts go on.</p>
      ${numberField("seconds", "Seconds", PAUSE_SECONDS, 1)}`,
    verb: () => "Pause",
    act: async (form) => {
      const seconds = Number(input(form, "seconds").value);
      await send("PUT", tubePath(tube, "pause"), { seconds });
      return `${tube} is paused for ${duration(seconds)}.`;
    },
  });
}

export function resumeTube(tube: string): void {
  ask({
    title: `Resume ${tube}`,
    content: () => html`<p>Its ready jobs are handed out again at once.</p>`,
    verb: () => "Resume",
    act: async () => {
      await send("DELETE", tubePath(tube, "pause"));
      return `${tube} is not paused any more.`;
    },
  });
}

export function kickTube(tube: string): void {
  askBulk({
    tube,
    route: "kick",
    states: ["buried", "delayed"],
    chosen: ["buried"],
    verb: "Kick",
    done: "ready again",
  });
}

export function clearTube(tube: string): void {
  const states = ["ready", "delayed", "buried"];
  askBulk({ tube, route: "clear", states, chosen: states, verb: "Delete", done: "deleted" });
}

interface Bulk {
  readonly tube: string;
  readonly route: "kick" | "clear";
  readonly states: readonly string[];
  readonly chosen: readonly string[];
  readonly verb: string;
  readonly done: string;
}

/** Counts first, by a dry run; then asks, with that count; then does it as a task that can be stopped. */
class BulkAsking {
  readonly #bulk: Bulk;
  #chosen: readonly string[];
  #count: number | undefined;
  #fault = "";
  #typed = "";
  #task: Task | undefined;
  #isStopping = false;
  #isActing = false;
  redraw: () => void = () => {};

  constructor(bulk: Bulk) {
    this.#bulk = bulk;
    this.#chosen = bulk.chosen;
  }

  async count(): Promise<void> {
    const states = this.#chosen;
    this.#count = undefined;
    this.#fault = "";
    this.redraw();
    try {
      const path = tubePath(this.#bulk.tube, this.#bulk.route);
      const { affected } =
        states.length === 0 ? { affected: 0 } : await sendBulk(path, { states, dryRun: true }, () => {});
      if (states === this.#chosen) this.#count = affected;
    } catch (error) {
      this.#fault = (error as Error).message;
    }
    this.redraw();
  }

  get needsName(): boolean {
    return this.#bulk.route === "clear" && (this.#count ?? 0) >= TYPED_FROM_JOBS;
  }

  get isReady(): boolean {
    return (this.#count ?? 0) > 0 && (!this.needsName || this.#typed === this.#bulk.tube);
  }

  get verb(): string {
    return this.#count === undefined ? "Counting…" : `${this.#bulk.verb} ${jobs(this.#count)}`;
  }

  choose(state: string, isChosen: boolean): void {
    const others = this.#chosen.filter((each) => each !== state);
    this.#chosen = isChosen ? [...others, state] : others;
    void this.count();
  }

  content(): Part {
    if (this.#isActing) return this.#progress();
    const { tube, states, route } = this.#bulk;
    const choice = (state: string): Part => html`<label class="choice">
      <input type="checkbox" ?checked=${this.#chosen.includes(state)} @change=${(event: Event) =>
        this.choose(state, (event.target as HTMLInputElement).checked)}>
      <span class=${state}>${state}</span>
    </label>`;
    return html`<fieldset><legend>Jobs that are</legend>${states.map(choice)}</fieldset>
      <p aria-live="polite">
        ${this.#fault !== "" ? this.#fault : this.#count === undefined ? "Counting…" : this.#sentence(this.#count)}
      </p>
      ${
        this.needsName
          ? html`<label><span>So many: type <b>${tube}</b> to delete them</span>
              <input name="typed" autocomplete="off" spellcheck="false" @input=${(event: Event) => {
                this.#typed = (event.target as HTMLInputElement).value;
                this.redraw();
              }}></label>`
          : nothing
      }
      ${route === "clear" ? html`<p class="quiet">Reserved jobs stay: they are their workers'. There is no way back.</p>` : nothing}`;
  }

  #sentence(count: number): string {
    const { verb, tube } = this.#bulk;
    return count === 0 ? `${tube} has none.` : `${verb} ${jobs(count)} of ${tube}?`;
  }

  #progress(): Part {
    const { affected = 0, progress = 0 } = this.#task ?? {};
    return html`<label>${exact(affected)} ${this.#bulk.done} so far
      <progress max="1" .value=${progress}></progress></label>`;
  }

  async act(): Promise<string> {
    const { tube, route, done } = this.#bulk;
    this.#isActing = true;
    this.#isStopping = false;
    this.redraw();
    try {
      const outcome = await sendBulk(tubePath(tube, route), { states: this.#chosen }, (task) => {
        this.#task = task;
        // Stopped before there was a task to stop.
        if (this.#isStopping && task.state === "running") this.stop();
        this.redraw();
      });
      return `${outcome.isStopped ? "Stopped: " : ""}${jobs(outcome.affected)} of ${tube} ${outcome.affected === 1 ? "is" : "are"} ${done}.`;
    } finally {
      this.#isActing = false;
    }
  }

  stop(): void {
    this.#isStopping = true;
    if (this.#task !== undefined) send("DELETE", `v1/tasks/${this.#task.id}`).catch(() => {});
  }
}

function askBulk(bulk: Bulk): void {
  const asking = new BulkAsking(bulk);
  asking.redraw = ask({
    title: bulk.route === "clear" ? `Clear ${bulk.tube}` : `Kick jobs of ${bulk.tube}`,
    content: () => asking.content(),
    verb: () => asking.verb,
    isDangerous: bulk.route === "clear",
    isReady: () => asking.isReady,
    act: () => asking.act(),
    stop: () => asking.stop(),
  });
  void asking.count();
}

// --- a job, a connection --------------------------------------------------------------------------------------

export function deleteJob(id: number, tube: string, isReserved: boolean): void {
  ask({
    title: `Delete job ${id}`,
    content: () => html`<p>
      Job ${id} of ${tube} is gone then, with its body; there is no way back.
      ${isReserved ? html`<b>A worker holds it</b>, and learns of it when it is done.` : nothing}
    </p>`,
    verb: () => "Delete",
    isDangerous: true,
    act: async () => {
      await send("DELETE", `v1/jobs/${id}${isReserved ? "?force=true" : ""}`);
      return `Job ${id} of ${tube} is deleted.`;
    },
  });
}

export function kickJob(id: number, tube: string): void {
  ask({
    title: `Kick job ${id}`,
    content: () => html`<p>Job ${id} of ${tube} is ready then, for any worker.</p>`,
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
      The worker that holds job ${id} of ${tube} loses it, as if its time to run were over, and another may get it. If it is at work on it, it is done twice.
    </p>`,
    verb: () => "Release",
    isDangerous: true,
    act: async () => {
      await send("POST", `v1/jobs/${id}/release`);
      return `Job ${id} of ${tube} is taken from its worker, and ready again.`;
    },
  });
}

export function closeConnection(id: string, address: string, held: number): void {
  ask({
    title: "Close a connection",
    content: () => html`<p>
      The connection ${id} from ${address} ends once what it has under way is answered.
      ${held === 0 ? "It holds no job." : `The ${jobs(held)} that it holds ${held === 1 ? "is" : "are"} ready again.`}
    </p>`,
    verb: () => "Close it",
    isDangerous: true,
    act: async () => {
      await send("DELETE", `v1/connections/${encodeURIComponent(id)}`);
      return `The connection ${id} from ${address} is closed.`;
    },
  });
}
