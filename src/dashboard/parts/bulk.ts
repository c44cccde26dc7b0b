// Bulk actions: counts the jobs by a dry run, asks for confirmation with that count, and runs tasks
// that can be stopped.

import { html, nothing } from "lit-html";
import { Asked, ask, input, tryAgain } from "./dialog.ts";
import { ago, type Part, tubePath } from "./elements.ts";
import { deathOf, type FailureGroup, groupsOf, reasonOf, workersInWords } from "./failures.ts";
import { exact, jobs } from "./format.ts";
import { type JobFilter, type Step, send, sendBulk, type Task } from "./request.ts";
import type { JobRow, JobsPage } from "./view-types.ts";

// Table of the tubes where dead jobs of a tube died, and why, shown before a redrive.

/** The first dead jobs stand for all. The request leaves out their bodies. */
const SAMPLE = 1000;
const ROWS_MAX = 8;

/** Age from which the sample is refreshed, ms. */
const RENEW_MS = 60_000;

const asked = new Asked<JobsPage>(RENEW_MS);
/** Sample for the open dialog. */
let shown: Step | undefined;

/** Returns a table of origins and reasons; nothing until they are known. */
function deadSummary(step: Step, redraw: () => void): Part {
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

/** Number of jobs from which the user must type the tube's name. */
const TYPED_FROM_JOBS = 100;
const QUEUED = ["ready", "delayed", "buried"];

/** Returns the name of a single tube, or the number of tubes. */
export const named = (tubes: readonly string[]): string =>
  tubes.length === 1 ? tubes[0]! : `${exact(tubes.length)} tubes`;

const stepsOf = (tubes: readonly string[], filter: JobFilter | undefined): readonly Step[] =>
  tubes.map((tube) => ({ tube, ...(filter === undefined ? {} : { where: filter.where }) }));

/** Each action applies to the jobs that match the filter of the list, if there is one. */
export function kickTubes(tubes: readonly string[], filter?: JobFilter): void {
  const states = ["buried", "delayed"];
  askBulk({ tubes, filter, steps: stepsOf(tubes, filter), route: "kick", states, chosen: ["buried"] });
}

export function clearTubes(tubes: readonly string[], filter?: JobFilter): void {
  const steps = stepsOf(tubes, filter);
  askBulk({ tubes, filter, steps, route: "clear", states: QUEUED, chosen: QUEUED });
}

export function moveTubes(tubes: readonly string[], filter?: JobFilter): void {
  const steps = stepsOf(tubes, filter);
  askBulk({ tubes, filter, steps, route: "move", states: QUEUED, chosen: ["ready"] });
}

/** Returns dead jobs to the tubes where they died. The server leaves other jobs alone. */
export function redriveTubes(tubes: readonly string[], filter?: JobFilter): void {
  askBulk({ tubes, filter, steps: stepsOf(tubes, filter), route: "redrive", states: [], chosen: QUEUED });
}

/** Jobs in one state of a tube: some ids, or all that match. */
export interface ChosenJobs {
  readonly tube: string;
  readonly state: string;
  readonly ids?: readonly number[];
  readonly filter?: JobFilter | undefined;
}

function askJobs({ tube, state, ids, filter }: ChosenJobs, route: Bulk["route"]): void {
  const steps =
    ids === undefined
      ? stepsOf([tube], filter)
      : ids.map((id) => ({ tube, where: { idFrom: id, idTo: id } }));
  const [id, ...others] = ids ?? [];
  const isOne = id !== undefined && others.length === 0;
  const title = isOne ? { title: `${WORDS[route].verb} job ${id} of ${tube}` } : {};
  askBulk({ tubes: [tube], filter, steps, route, states: [], chosen: [state], ...title });
}

export const deleteJobs = (jobs: ChosenJobs): void => askJobs(jobs, "clear");
export const kickJobs = (jobs: ChosenJobs): void => askJobs(jobs, "kick");
export const moveJobs = (jobs: ChosenJobs): void => askJobs(jobs, "move");
export const updateJobs = (jobs: ChosenJobs): void => askJobs(jobs, "update");

const CHANGED_FIELDS = [
  { name: "pri", label: "Priority", from: 0 },
  { name: "delay", label: "Delay, s", from: 0 },
  { name: "ttr", label: "Time to run, s", from: 1 },
] as const;

const CHANGES = html`<div class="fields">
    ${CHANGED_FIELDS.map(
      ({ name, label, from }) => html`<label>${label}
        <input name=${name} type="number" min=${from} max="4294967295" step="1" placeholder="unchanged"></label>`,
    )}
  </div>
  <p class="quiet">Empty fields change nothing. A delay counts from now on; 0 makes a delayed job ready.</p>`;

interface Bulk {
  /** Set if the action is on a single job. */
  readonly title?: string;
  readonly tubes: readonly string[];
  readonly filter: JobFilter | undefined;
  readonly steps: readonly Step[];
  readonly route: "kick" | "clear" | "move" | "update" | "redrive";
  /** States to choose from, and those chosen initially. */
  readonly states: readonly string[];
  readonly chosen: readonly string[];
}

const WORDS = {
  kick: { title: "Kick jobs of", verb: "Kick", done: "ready again" },
  clear: { title: "Delete jobs of", verb: "Delete", done: "deleted" },
  move: { title: "Move jobs of", verb: "Move", done: "moved" },
  update: { title: "Update jobs of", verb: "Update", done: "updated" },
  redrive: { title: "Redrive dead jobs of", verb: "Redrive", done: "redriven" },
} as const;

/**
 * Dialog of a bulk action: counts by a dry run, asks with that count, and then runs each step as a
 * task that can be stopped.
 */
class BulkAsking {
  readonly #bulk: Bulk;
  #chosen: readonly string[];
  #count: number | undefined;
  #fault = "";
  #typed = "";
  #task: Task | undefined;
  /** Jobs changed by the finished steps. */
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
        // A dry run of "clear" counts the same jobs as "move" and "update", and needs no target.
        const { route: asks } = this.#bulk;
        const route = asks === "redrive" || asks === "kick" ? asks : "clear";
        sum += (await sendBulk(tubePath(tube, route), asked, () => {})).affected;
        if (states !== this.#chosen) return;
      }
      this.#count = sum;
    } catch (error) {
      if (states === this.#chosen) this.#fault = (error as Error).message;
    }
    this.redraw();
  }

  /** Text that must be typed before many jobs are deleted. */
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
    if (this.#count !== undefined) return `${verb} ${jobs(this.#count)}`;
    return this.#fault === "" ? "Counting…" : verb;
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
      ${route === "move" ? this.#target() : route === "update" ? CHANGES : nothing}
      <p aria-live="polite">
        ${this.#fault !== "" ? tryAgain(this.#fault, () => void this.count()) : this.#count === undefined ? "Counting…" : this.#sentence(this.#count)}
      </p>
      ${
        this.needsName
          ? html`<label><span>To delete that many, type <b>${this.#name}</b></span>
              <input name="typed" autocomplete="off" spellcheck="false" @input=${(event: Event) => {
                this.#typed = (event.target as HTMLInputElement).value;
                this.redraw();
              }}></label>`
          : nothing
      }
      ${route === "clear" ? html`<p class="quiet">${this.#warning()}</p>` : nothing}
      ${route === "redrive" ? deadSummary(this.#bulk.steps[0]!, () => this.redraw()) : nothing}`;
  }

  #warning(): string {
    return this.#chosen.includes("reserved")
      ? "Workers hold these jobs, and find out only when they finish. You can't undo this."
      : "Reserved jobs stay with their workers. You can't undo this.";
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
    const { tubes, filter } = this.#bulk;
    const which = filter === undefined ? "" : ` ${filter.words}`;
    if (count > 0) return `${verb} ${jobs(count)} of ${this.#name}${which}?`;
    return tubes.length === 1 ? `${this.#name} has none${which}.` : "They have none.";
  }

  #progress(): Part {
    const { affected = 0, progress = 0 } = this.#task ?? {};
    const share = (this.#stepsDone + progress) / this.#bulk.steps.length;
    return html`<label>${exact(this.#affected + affected)} ${this.#done} so far
      <progress max="1" .value=${share}></progress></label>`;
  }

  async act(form: HTMLFormElement): Promise<string> {
    const { steps } = this.#bulk;
    const more = this.#more(form);
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

  /** Returns the additional parameters of the request. Throws if one is missing. */
  #more(form: HTMLFormElement): object {
    const { route } = this.#bulk;
    if (route === "move") return { to: input(form, "to").value, ...(this.#copies ? { copy: true } : {}) };
    if (route !== "update") return {};
    const set = Object.fromEntries(
      CHANGED_FIELDS.flatMap(({ name }) => {
        const { value } = input(form, name);
        return value === "" ? [] : [[name, Number(value)]];
      }),
    );
    if (Object.keys(set).length === 0) throw new Error("Give at least one of them.");
    return { set };
  }

  async #step({ tube, where }: Step, more: object): Promise<boolean> {
    const asked = { states: this.#chosen, ...(where === undefined ? {} : { where }), ...more };
    this.#task = undefined;
    const { affected, isStopped } = await sendBulk(tubePath(tube, this.#bulk.route), asked, (task) => {
      this.#task = task;
      // The user pressed Stop before the task existed.
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
    title: bulk.title ?? `${WORDS[bulk.route].title} ${named(bulk.tubes)}`,
    content: () => asking.content(),
    verb: () => asking.verb,
    isDangerous: bulk.route === "clear",
    isReady: () => asking.isReady,
    act: (form) => asking.act(form),
    stop: () => asking.stop(),
  });
  void asking.count();
}
