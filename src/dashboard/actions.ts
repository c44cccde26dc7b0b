// What the pages' buttons do: each asks first, does it, and says what was done.

import { html, nothing } from "lit-html";
import { ask } from "./dialog.ts";
import { duration, exact } from "./format.ts";
import { type Part, tubePath } from "./parts.ts";
import { send, sendBulk, type Task } from "./request.ts";

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

/** What stands in the dialog at first. */
interface PutStart {
  readonly body: string;
  readonly pri: number;
  readonly ttr: number;
}

export function putJob(tube: string, { body, pri, ttr }: PutStart = { body: "", pri: 1024, ttr: 60 }): void {
  const redraw = ask({
    title: "Put a job",
    content: () => html`
      <label>Tube <input name="tube" required maxlength="200" .defaultValue=${tube}></label>
      <div class="fields">
        ${numberField("pri", "Priority", pri, 0)} ${numberField("delay", "Delay, s", 0, 0)} ${numberField("ttr", "Time to run, s", ttr, 1)}
      </div>
      <label>Body <textarea name="body" rows="6" spellcheck="false" .defaultValue=${body} @input=${() => redraw()}></textarea></label>
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

const named = (tubes: readonly string[]): string =>
  tubes.length === 1 ? tubes[0]! : `${exact(tubes.length)} tubes`;

export function pauseTubes(tubes: readonly string[]): void {
  ask({
    title: `Pause ${named(tubes)}`,
    content:
      () => html`<p>Nobody reserves from ${tubes.length === 1 ? "it" : "them"} for a while. Jobs that are reserved are not touched, and puts go on.</p>
      ${numberField("seconds", "Seconds", PAUSE_SECONDS, 1)}`,
    verb: () => "Pause",
    act: async (form) => {
      const seconds = Number(input(form, "seconds").value);
      for (const tube of tubes) await send("PUT", tubePath(tube, "pause"), { seconds });
      return `${named(tubes)} ${tubes.length === 1 ? "is" : "are"} paused for ${duration(seconds)}.`;
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

const QUEUED = ["ready", "delayed", "buried"];

export function kickTubes(tubes: readonly string[]): void {
  const steps = tubes.map((tube) => ({ tube }));
  askBulk({ tubes, steps, route: "kick", states: ["buried", "delayed"], chosen: ["buried"] });
}

export function clearTubes(tubes: readonly string[]): void {
  askBulk({ tubes, steps: tubes.map((tube) => ({ tube })), route: "clear", states: QUEUED, chosen: QUEUED });
}

export function moveTubes(tubes: readonly string[]): void {
  askBulk({
    tubes,
    steps: tubes.map((tube) => ({ tube })),
    route: "move",
    states: QUEUED,
    chosen: ["ready"],
  });
}

/** Jobs of one state of a tube: by their ids, or all that match. */
export interface ChosenJobs {
  readonly tube: string;
  readonly state: string;
  readonly ids?: readonly number[];
  readonly where?: object;
}

function askJobs({ tube, state, ids, where }: ChosenJobs, route: Bulk["route"]): void {
  const steps =
    ids === undefined
      ? [{ tube, ...(where === undefined ? {} : { where }) }]
      : ids.map((id) => ({ tube, where: { idFrom: id, idTo: id } }));
  askBulk({ tubes: [tube], steps, route, states: [], chosen: [state] });
}

export const deleteJobs = (jobs: ChosenJobs): void => askJobs(jobs, "clear");
export const kickJobs = (jobs: ChosenJobs): void => askJobs(jobs, "kick");
export const moveJobs = (jobs: ChosenJobs): void => askJobs(jobs, "move");

/** What is asked of the server: of a tube, and the jobs that are meant there. */
interface Step {
  readonly tube: string;
  readonly where?: object;
}

interface Bulk {
  readonly tubes: readonly string[];
  readonly steps: readonly Step[];
  readonly route: "kick" | "clear" | "move";
  /** States that one can choose, and those that are chosen at first. */
  readonly states: readonly string[];
  readonly chosen: readonly string[];
}

const WORDS = {
  kick: { title: "Kick jobs of", verb: "Kick", done: "ready again" },
  clear: { title: "Delete jobs of", verb: "Delete", done: "deleted" },
  move: { title: "Move jobs of", verb: "Move", done: "moved" },
} as const;

/** Counts first, by a dry run; then asks, with that count; then does it, step by step, as tasks that can be stopped. */
class BulkAsking {
  readonly #bulk: Bulk;
  #chosen: readonly string[];
  #count: number | undefined;
  #fault = "";
  #typed = "";
  #task: Task | undefined;
  /** By the steps that are done. */
  #affected = 0;
  #stepsDone = 0;
  #isStopping = false;
  #isActing = false;
  #copies = false;
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
      let sum = 0;
      for (const { tube, where } of states.length === 0 ? [] : this.#bulk.steps) {
        const asked = { states, dryRun: true, ...(where === undefined ? {} : { where }) };
        // Where it may move to is not known yet, and does not matter: a move finds what a kick or a clear finds.
        sum += (await sendBulk(tubePath(tube, "clear"), asked, () => {})).affected;
        if (states !== this.#chosen) return;
      }
      this.#count = sum;
    } catch (error) {
      this.#fault = (error as Error).message;
    }
    this.redraw();
  }

  /** What is to be typed before so many are deleted. */
  get #name(): string {
    return named(this.#bulk.tubes);
  }

  get needsName(): boolean {
    return this.#bulk.route === "clear" && (this.#count ?? 0) >= TYPED_FROM_JOBS;
  }

  get isReady(): boolean {
    return (this.#count ?? 0) > 0 && (!this.needsName || this.#typed === this.#name);
  }

  get verb(): string {
    const verb = this.#copies ? "Copy" : WORDS[this.#bulk.route].verb;
    return this.#count === undefined ? "Counting…" : `${verb} ${jobs(this.#count)}`;
  }

  get #done(): string {
    return this.#copies ? "copied" : WORDS[this.#bulk.route].done;
  }

  choose(state: string, isChosen: boolean): void {
    const others = this.#chosen.filter((each) => each !== state);
    this.#chosen = isChosen ? [...others, state] : others;
    void this.count();
  }

  content(): Part {
    if (this.#isActing) return this.#progress();
    const { states, route } = this.#bulk;
    const choice = (state: string): Part => html`<label class="choice">
      <input type="checkbox" ?checked=${this.#chosen.includes(state)} @change=${(event: Event) =>
        this.choose(state, (event.target as HTMLInputElement).checked)}>
      <span class=${state}>${state}</span>
    </label>`;
    return html`${states.length === 0 ? nothing : html`<fieldset><legend>Jobs that are</legend>${states.map(choice)}</fieldset>`}
      ${route === "move" ? this.#target() : nothing}
      <p aria-live="polite">
        ${this.#fault !== "" ? this.#fault : this.#count === undefined ? "Counting…" : this.#sentence(this.#count)}
      </p>
      ${
        this.needsName
          ? html`<label><span>So many: type <b>${this.#name}</b> to delete them</span>
              <input name="typed" autocomplete="off" spellcheck="false" @input=${(event: Event) => {
                this.#typed = (event.target as HTMLInputElement).value;
                this.redraw();
              }}></label>`
          : nothing
      }
      ${route === "clear" ? html`<p class="quiet">${this.#warning()}</p>` : nothing}`;
  }

  #warning(): string {
    return this.#chosen.includes("reserved")
      ? "Workers hold these, and learn of it when they are done. There is no way back."
      : "Reserved jobs stay: they are their workers'. There is no way back.";
  }

  #target(): Part {
    const copy = (event: Event): void => {
      this.#copies = (event.target as HTMLInputElement).checked;
      this.redraw();
    };
    return html`<label>To the tube <input name="to" required maxlength="200" autocomplete="off" spellcheck="false"></label>
      <label class="choice">
        <input type="checkbox" @change=${copy}>Copy them: put new jobs there, and leave these where they are
      </label>`;
  }

  #sentence(count: number): string {
    const verb = this.#copies ? "Copy" : WORDS[this.#bulk.route].verb;
    if (count > 0) return `${verb} ${jobs(count)} of ${this.#name}?`;
    return this.#bulk.tubes.length === 1 ? `${this.#name} has none.` : "They have none.";
  }

  #progress(): Part {
    const { affected = 0, progress = 0 } = this.#task ?? {};
    const share = (this.#stepsDone + progress) / this.#bulk.steps.length;
    return html`<label>${exact(this.#affected + affected)} ${this.#done} so far
      <progress max="1" .value=${share}></progress></label>`;
  }

  async act(form: HTMLFormElement): Promise<string> {
    const { route, steps } = this.#bulk;
    const more =
      route === "move" ? { to: input(form, "to").value, ...(this.#copies ? { copy: true } : {}) } : {};
    this.#isActing = true;
    this.#isStopping = false;
    this.#affected = 0;
    this.#stepsDone = 0;
    this.redraw();
    try {
      let wasStopped = false;
      for (const step of steps) {
        wasStopped = this.#isStopping || (await this.#step(step, more));
        if (wasStopped) break;
      }
      const is = this.#affected === 1 ? "is" : "are";
      return `${wasStopped ? "Stopped: " : ""}${jobs(this.#affected)} of ${this.#name} ${is} ${this.#done}.`;
    } catch (error) {
      const before = this.#affected === 0 ? "" : ` Before that, ${jobs(this.#affected)} were ${this.#done}.`;
      throw new Error(`${(error as Error).message}${before}`);
    } finally {
      this.#isActing = false;
      this.#task = undefined;
    }
  }

  /** Returns whether it was stopped. */
  async #step({ tube, where }: Step, more: object): Promise<boolean> {
    const asked = { states: this.#chosen, ...(where === undefined ? {} : { where }), ...more };
    this.#task = undefined;
    const { affected, isStopped } = await sendBulk(tubePath(tube, this.#bulk.route), asked, (task) => {
      this.#task = task;
      // Stopped before there was a task to stop.
      if (this.#isStopping && task.state === "running") this.stop();
      this.redraw();
    });
    this.#affected += affected;
    this.#stepsDone++;
    this.#task = undefined;
    this.redraw();
    return isStopped;
  }

  stop(): void {
    this.#isStopping = true;
    if (this.#task !== undefined) send("DELETE", `v1/tasks/${this.#task.id}`).catch(() => {});
  }
}

function askBulk(bulk: Bulk): void {
  const asking = new BulkAsking(bulk);
  asking.redraw = ask({
    title: `${WORDS[bulk.route].title} ${named(bulk.tubes)}`,
    content: () => asking.content(),
    verb: () => asking.verb,
    isDangerous: bulk.route === "clear",
    isReady: () => asking.isReady,
    act: (form) => asking.act(form),
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

export function drain(isOn: boolean): void {
  ask({
    title: isOn ? "Drain the server" : "Take new jobs again",
    content: () => html`<p>
      ${
        isOn
          ? "It takes no new jobs from now on: puts are answered DRAINING. Workers go on with those that it has."
          : "Puts are taken again, as before."
      }
    </p>`,
    verb: () => (isOn ? "Drain" : "Take new jobs"),
    isDangerous: isOn,
    act: async () => {
      await send(isOn ? "PUT" : "DELETE", "v1/server/drain");
      return isOn ? "The server drains: it takes no new jobs." : "The server takes new jobs again.";
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
