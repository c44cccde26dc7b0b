// Dialogs that ask before something is done, and messages that say what was done and stay until they are closed.

import { html, nothing, render } from "lit-html";
import type { Part } from "./parts.ts";

export interface Asking {
  readonly title: string;
  /** What stands above the buttons; drawn again by `redraw`. */
  readonly content: () => Part;
  /** The word on the button that does it. */
  readonly verb: () => string;
  readonly isDangerous?: boolean;
  /** Whether it can be done now. */
  readonly isReady?: () => boolean;
  /** Does it; what it returns is said in a message. Throws what went wrong, which the dialog says. */
  readonly act: (form: HTMLFormElement) => Promise<Part | string>;
  /** Ends what `act` has under way; it then stands beside it as "Stop". */
  readonly stop?: () => void;
}

/** Told when something was changed, so that pages ask anew. */
export const CHANGED = "runnerbean-changed";

/** Opens a dialog; returns what draws it again. */
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
      // Whoever has closed the dialog is to hear of it, too.
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
              : html`<button class="button" type="button" @click=${() => element.close()}>Cancel</button>`
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

/** A message at the edge of the page, until it is closed. */
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
}

// --- fields -------------------------------------------------------------------------------------------------

export const input = (form: HTMLFormElement, name: string): HTMLInputElement =>
  form.elements.namedItem(name) as HTMLInputElement;

export const numberField = (name: string, label: string, value: number, from: number): Part => html`<label>
  ${label}
  <input name=${name} type="number" min=${from} max="4294967295" step="1" required .defaultValue=${`${value}`}>
</label>`;
