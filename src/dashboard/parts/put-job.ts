// Dialog that puts a job, with templates stored in the browser.

import { html, nothing } from "lit-html";
import { ask, input, numberField } from "./dialog.ts";
import { type Part, tubePath } from "./elements.ts";
import { exact } from "./format.ts";
import { send } from "./request.ts";

/** Initial values of the dialog. */
interface PutStart {
  readonly body: string;
  readonly pri: number;
  readonly ttr: number;
}

export function putJob(tube: string, { body, pri, ttr }: PutStart = { body: "", pri: 1024, ttr: 60 }): void {
  const templates = new Templates(() => redraw());
  const redraw = ask({
    title: "Put a job",
    content: () => html`
      ${templates.choice()}
      <label>Tube <input name="tube" required maxlength="200" .defaultValue=${tube}></label>
      <div class="fields">
        ${numberField("pri", "Priority", pri, 0)} ${numberField("delay", "Delay, s", 0, 0)} ${numberField("ttr", "Time to run, s", ttr, 1)}
      </div>
      <label>Body <textarea name="body" rows="6" spellcheck="false" .defaultValue=${body} @input=${() => redraw()}></textarea></label>
      <p class="quiet" aria-live="polite">${bodyInWords(body)}</p>
      ${templates.keeping()}
    `,
    verb: () => "Put",
    act: async (form) => {
      const { tube: name, ...job } = valuesOf(form);
      const { id } = (await send("POST", tubePath(name, "jobs"), job)) as { id: number };
      return html`Put as <a href="#/jobs/${id}">job ${id}</a> into ${name}.`;
    },
  });
}

interface Values {
  readonly tube: string;
  readonly body: string;
  readonly pri: number;
  readonly delay: number;
  readonly ttr: number;
}

function valuesOf(form: HTMLFormElement): Values {
  const number = (name: string): number => Number(input(form, name).value);
  return {
    tube: input(form, "tube").value,
    body: input(form, "body").value,
    pri: number("pri"),
    delay: number("delay"),
    ttr: number("ttr"),
  };
}

/** Describes the body, `first` until its field exists: its length, and whether it is JSON. */
function bodyInWords(first: string): string {
  const text = document.querySelector<HTMLTextAreaElement>('dialog textarea[name="body"]')?.value ?? first;
  const size = `${exact(new TextEncoder().encode(text).length)} bytes`;
  if (!/^\s*[[{"]/.test(text)) return size;
  try {
    JSON.parse(text);
    return `${size}, valid JSON`;
  } catch {
    return `${size}, no valid JSON`;
  }
}

// --- Templates ---

const STORED = "runnerbean.templates";
const FIELDS = ["tube", "body", "pri", "delay", "ttr"] as const;

/** Returns the stored templates by name; none if they are missing or invalid. */
function stored(): ReadonlyMap<string, Values> {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(STORED) ?? "{}");
    const isValues = (value: unknown): value is Values =>
      typeof value === "object" && value !== null && FIELDS.every((field) => field in value);
    return new Map(
      Object.entries(kept as object).flatMap(([name, value]) => (isValues(value) ? [[name, value]] : [])),
    );
  } catch {
    return new Map();
  }
}

/** Throws if the browser stores nothing or is out of space. */
const store = (templates: ReadonlyMap<string, Values>): void =>
  localStorage.setItem(STORED, JSON.stringify(Object.fromEntries(templates)));

const formOf = (event: Event): HTMLFormElement => (event.currentTarget as HTMLInputElement).form!;

class Templates {
  readonly #redraw: () => void;
  /** Name of the chosen template. */
  #name = "";
  #said = "";

  constructor(redraw: () => void) {
    this.#redraw = redraw;
  }

  /** Returns a list of the templates. Choosing one fills in the dialog. */
  choice(): Part {
    const templates = stored();
    if (templates.size === 0) return nothing;
    const choose = (event: Event): void => {
      this.#name = (event.currentTarget as HTMLSelectElement).value;
      const values = templates.get(this.#name);
      const form = formOf(event);
      if (values !== undefined) for (const field of FIELDS) input(form, field).value = `${values[field]}`;
      this.#said = "";
      this.#redraw();
    };
    const forget = (): void => {
      const { [this.#name]: _gone, ...others } = Object.fromEntries(stored());
      store(new Map(Object.entries(others)));
      this.#said = `Deleted the template ${this.#name}.`;
      this.#name = "";
      this.#redraw();
    };
    return html`<div class="bar">
      <label class="grow">Template
        <select name="template" @change=${choose}>
          <option value="" ?selected=${this.#name === ""}>none</option>
          ${[...templates.keys()].map((name) => html`<option value=${name} ?selected=${name === this.#name}>${name}</option>`)}
        </select>
      </label>
      ${this.#name === "" ? nothing : html`<button class="button" type="button" @click=${forget}>Delete the template</button>`}
    </div>`;
  }

  /** Returns the fields to store the current input as a template, without a put. */
  keeping(): Part {
    const keep = (event: Event): void => {
      const form = formOf(event);
      const name = input(form, "template-name").value.trim();
      if (name === "") this.#said = "Give the template a name.";
      else {
        try {
          store(new Map([...stored(), [name, valuesOf(form)]]));
          input(form, "template-name").value = "";
          this.#name = name;
          this.#said = `Saved as the template ${name} in this browser.`;
        } catch {
          this.#said = "The browser has no room for another template.";
        }
      }
      this.#redraw();
    };
    // Otherwise, Enter would put the job.
    const byKey = (event: KeyboardEvent): void => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      keep(event);
    };
    return html`<details class="more">
      <summary>Keep this as a template</summary>
      <div class="bar">
        <label class="grow">Its name <input name="template-name" maxlength="60" autocomplete="off" @keydown=${byKey}></label>
        <button class="button" type="button" @click=${keep}>Keep</button>
      </div>
      <p class="quiet" role="status">${this.#said}</p>
    </details>`;
  }
}
