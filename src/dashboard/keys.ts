// Dialog with the keyboard shortcuts and the switch that disables them: speech input could trigger
// one by accident.

import { html, render } from "lit-html";

const KEYS: readonly (readonly [keys: string, does: string])[] = [
  ["g o", "overview"],
  ["g t", "tubes"],
  ["g c", "connections"],
  ["g h", "schedules"],
  ["g b", "batches"],
  ["g l", "log"],
  ["g r", "group"],
  ["g s", "server"],
  ["g a", "audit"],
  ["/", "filter"],
  ["f", "finds a job by its id, or a text in any tube"],
  ["j", "next row"],
  ["k", "previous row"],
  ["x", "selects or deselects the row"],
  ["Enter", "opens the row"],
  ["p", "pauses or resumes the tube, after a confirmation"],
  [".", "freezes the view"],
  ["d", "light, dark, or as in the system"],
  ["?", "this list"],
];
const STORED = "runnerbean.keys";

export function showKeys(): void {
  const element = document.createElement("dialog");
  element.setAttribute("aria-labelledby", "dialog-title");
  element.addEventListener("close", () => element.remove());
  const turn = (event: Event): void => {
    if ((event.target as HTMLInputElement).checked) localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, "off");
  };
  render(
    html`<div class="form">
      <h2 id="dialog-title">Keys</h2>
      <table>
        <caption class="hidden">Keys</caption>
        <thead class="hidden"><tr><th scope="col">key</th><th scope="col">does</th></tr></thead>
        <tbody>
          ${KEYS.map(
            ([keys, does]) => html`<tr>
              <th scope="row">${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</th><td class="left">${does}</td>
            </tr>`,
          )}
        </tbody>
      </table>
      <label class="choice">
        <input type="checkbox" ?checked=${localStorage.getItem(STORED) !== "off"} @change=${turn}>Keys are on
      </label>
      <div class="bar end"><button class="button" type="button" @click=${() => element.close()}>Close</button></div>
    </div>`,
    element,
  );
  document.body.append(element);
  element.showModal();
}
