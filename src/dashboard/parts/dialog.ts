// Dialogs that ask for confirmation, and messages about results that stay until they are closed.

import { html, nothing, render } from "lit-html";
import type { Part } from "./elements.ts";

interface Asking {
  readonly title: Part | string;
  /** Content above the buttons; `redraw` renders it again. */
  readonly content: () => Part;
  /** Label of the confirming button. */
  readonly verb: () => string;
  readonly isDangerous?: boolean;
  /** Label of the button that does nothing; "Cancel". */
  readonly dismiss?: string;
  /** Tells whether the action is possible now. */
  readonly isReady?: () => boolean;
  /** Runs the action and returns the message about it. The dialog shows an error that it throws. */
  readonly act: (form: HTMLFormElement) => Promise<Part | string>;
  /** Stops the running `act`; adds a "Stop" button. */
  readonly stop?: () => void;
}

/** Event after each change, so that pages refresh. */
export const CHANGED = "runnerbean-changed";

/** Opens a dialog and returns its redraw function. */
export function ask(asking: Asking): () => void {
  const element = document.createElement("dialog");
  element.setAttribute("aria-labelledby", "dialog-title");
  element.addEventListener("close", () => element.remove());
  document.body.append(element);
  let isActing = false;
  let wrong = "";
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (isActing) return;
    isActing = true;
    wrong = "";
    draw();
    try {
      const done = await asking.act(event.target as HTMLFormElement);
      element.close();
      say(done);
    } catch (error) {
      // Report the error even if the user has closed the dialog.
      if (!element.isConnected) say((error as Error).message, true);
      isActing = false;
      wrong = (error as Error).message;
      draw();
    }
    window.dispatchEvent(new Event(CHANGED));
  };
  const draw = (): void => {
    const canAct = !isActing && asking.isReady?.() !== false;
    render(
      html`<form class="form" @submit=${submit}>
        <h2 id="dialog-title">${asking.title}</h2>
        ${asking.content()}
        <p class="buried" role="alert">${wrong === "" ? nothing : wrong}</p>
        <div class="bar end">
          ${
            isActing && asking.stop !== undefined
              ? html`<button class="button" type="button" @click=${asking.stop}>Stop</button>`
              : html`<button class="button" type="button" @click=${() => element.close()}>${asking.dismiss ?? "Cancel"}</button>`
          }
          <button class="button main ${asking.isDangerous === true ? "danger" : ""}" type="submit" ?disabled=${!canAct}>
            ${asking.verb()}
          </button>
        </div>
      </form>`,
      element,
    );
  };
  draw();
  element.showModal();
  return draw;
}

/** Messages at a time, so that they don't cover the page. */
const MESSAGES_MAX = 3;

/** Shows a message at the edge of the page until it is closed or others follow. */
export function say(text: Part | string, isBad = false): void {
  let place = document.querySelector("#messages");
  if (place === null) {
    place = document.createElement("section");
    place.id = "messages";
    place.setAttribute("aria-label", "Messages");
    place.setAttribute("aria-live", "polite");
    document.body.append(place);
  }
  const message = document.createElement("div");
  message.className = isBad ? "message bad" : "message";
  render(
    html`<span class="grow">${text}</span>
      <button class="button" type="button" aria-label="Close this message" @click=${() => message.remove()}>✕</button>`,
    message,
  );
  place.append(message);
  while (place.childElementCount > MESSAGES_MAX) place.firstElementChild?.remove();
}

/** Names the data that failed to load, and lets the user try again. */
export const tryAgain = (fault: string, again: () => void): Part =>
  html`${fault} <button class="button" type="button" @click=${again}>Try again</button>`;

// --- Fields ---

export const input = (form: HTMLFormElement, name: string): HTMLInputElement =>
  form.elements.namedItem(name) as HTMLInputElement;

export const numberField = (name: string, label: string, value: number, from: number): Part => html`<label>
  ${label}
  <input name=${name} type="number" min=${from} max="4294967295" step="1" required .defaultValue=${`${value}`}>
</label>`;

// Data that a part of a page requests besides the view: about one thing at a time, requested again
// when it is too old or when the user has changed something.

interface Known<T> {
  readonly key: string;
  answer: T | undefined;
  /** Time of the request or of its answer; -Infinity if the answer is out of date. */
  atMs: number;
  isAsked: boolean;
  /** Whether the last request failed. */
  hasFailed: boolean;
  /**
   * Redraws the part that shows the answer: the latest one, since a dialog may have been reopened.
   */
  redraw: () => void;
}

export class Asked<T> {
  readonly #ageMsMax: number;
  readonly #restMsOf: (answer: T) => number;
  #known: Known<T> | undefined;

  /** An answer may grow older by `restMsOf`, if it was costly. */
  constructor(ageMsMax: number, restMsOf: (answer: T) => number = () => 0) {
    this.#ageMsMax = ageMsMax;
    this.#restMsOf = restMsOf;
    window.addEventListener(CHANGED, () => this.outdate());
  }

  /** Returns the last answer about this key; undefined until the first one arrives. */
  last(key: string, ask: () => Promise<T>, redraw: () => void): T | undefined {
    if (this.#known?.key !== key) {
      const atMs = Number.NEGATIVE_INFINITY;
      this.#known = { key, answer: undefined, atMs, isAsked: false, hasFailed: false, redraw };
    }
    const known = this.#known;
    known.redraw = redraw;
    const restMs = known.answer === undefined ? 0 : this.#restMsOf(known.answer);
    if (!known.isAsked && performance.now() - known.atMs > this.#ageMsMax + restMs)
      void this.#renew(known, ask);
    return known.answer;
  }

  /** Whether the last request about this key failed. */
  hasFailed(key: string): boolean {
    return this.#known?.key === key && this.#known.hasFailed;
  }

  /** Lets the next draw request again. */
  outdate(): void {
    if (this.#known !== undefined) this.#known.atMs = Number.NEGATIVE_INFINITY;
  }

  async #renew(known: Known<T>, ask: () => Promise<T>): Promise<void> {
    const beganMs = performance.now();
    known.isAsked = true;
    known.atMs = beganMs;
    try {
      known.answer = await ask();
      known.hasFailed = false;
    } catch {
      // The page shows that the connection is lost. A later draw tries again.
      known.hasFailed = true;
    }
    known.isAsked = false;
    // The answer may lack changes made in the meantime.
    if (known.atMs === beganMs) known.atMs = performance.now();
    known.redraw();
  }
}
