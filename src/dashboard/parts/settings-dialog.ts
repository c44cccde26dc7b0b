// Dialog that changes the settings of a tube or of a pattern. Before that, it shows the number of
// affected tubes and the changes.

import { html, nothing } from "lit-html";
import { SETTINGS, type Setting } from "../../schema/setting.ts";
import { ask, tryAgain } from "./dialog.ts";
import type { Part } from "./elements.ts";
import { tubes } from "./format.ts";
import { send } from "./request.ts";
import { type InEffect, valueInWords } from "./setting-fields.ts";

const TYPED_MS = 250;

type Values = Readonly<Record<string, number | string>>;

interface Loaded {
  readonly pattern: string;
  readonly settings: Values;
  /** Tubes that match now. */
  readonly tubes: number;
}

export function changeSettings(tube: string, inEffect: InEffect): void {
  const asking = new SettingsAsking(tube, inEffect);
  asking.redraw = ask({
    title: "Change settings",
    content: () => asking.content(),
    verb: () => asking.verb,
    isReady: () => asking.isReady,
    act: () => asking.act(),
  });
  void asking.load();
}

/** A path can't contain "." and "..". */
export const pathOf = (pattern: string): string =>
  pattern === "." || pattern === ".."
    ? `v1/settings/-?pattern=${pattern}`
    : `v1/settings/${encodeURIComponent(pattern)}`;

class SettingsAsking {
  readonly #tube: string;
  readonly #inEffect: InEffect;
  #pattern: string;
  #loaded: Loaded | undefined;
  #fault = "";
  /** Texts of the fields, by the name of the setting; empty for none. */
  #typed: Record<string, string> = {};
  #timer = 0;
  #loads = 0;
  redraw: () => void = () => {};

  constructor(tube: string, inEffect: InEffect) {
    this.#tube = tube;
    this.#inEffect = inEffect;
    this.#pattern = tube;
  }

  async load(): Promise<void> {
    const pattern = this.#pattern;
    const load = ++this.#loads;
    this.#loaded = undefined;
    this.#fault = "";
    this.redraw();
    try {
      const loaded = (await send("GET", pathOf(pattern))) as Loaded;
      if (load !== this.#loads) return;
      this.#loaded = loaded;
      this.#typed = Object.fromEntries(
        Object.entries(loaded.settings).map(([name, value]) => [name, `${value}`]),
      );
    } catch (error) {
      if (load === this.#loads) this.#fault = (error as Error).message;
    }
    this.redraw();
  }

  #choose(pattern: string): void {
    this.#pattern = pattern;
    this.#loaded = undefined;
    this.#fault = "";
    this.#loads++;
    clearTimeout(this.#timer);
    if (pattern !== "") this.#timer = window.setTimeout(() => void this.load(), TYPED_MS);
    this.redraw();
  }

  get isReady(): boolean {
    return this.#loaded !== undefined && this.#changes.length > 0;
  }

  get verb(): string {
    return this.#loaded === undefined ? "Set" : `Set for ${tubes(this.#loaded.tubes)}`;
  }

  get #changes(): readonly Setting[] {
    const before = this.#loaded?.settings ?? {};
    return SETTINGS.filter(({ name }) => `${before[name] ?? ""}` !== (this.#typed[name] ?? ""));
  }

  content(): Part {
    return html`<label><span>For a tube, for all with a prefix (<code>mail-*</code>), or for all (<code>*</code>)</span>
        <input name="pattern" required maxlength="200" autocomplete="off" spellcheck="false" .defaultValue=${this.#pattern}
          @input=${({ target }: Event) => this.#choose((target as HTMLInputElement).value.trim())}></label>
      <p aria-live="polite">${this.#fault !== "" ? tryAgain(this.#fault, () => void this.load()) : this.#loaded === undefined ? "…" : appliesTo(this.#loaded)}</p>
      ${this.#loaded === undefined ? nothing : html`<div class="fields">${SETTINGS.map((field) => this.#field(field))}</div>`}
      <div aria-live="polite">${this.#summary()}</div>`;
  }

  /** Returns the value that a tube inherits: that of a pattern, or none. */
  #otherwise(field: Setting): string {
    const inherited = this.#pattern === this.#tube ? this.#inEffect[field.name] : undefined;
    if (inherited === undefined || inherited.from === this.#tube) return "none";
    return `${valueInWords(field, inherited.value)} (${inherited.from})`;
  }

  #field(field: Setting): Part {
    const { name, label, kind, hint, words, unset } = field;
    const value = this.#typed[name] ?? "";
    const otherwise = this.#otherwise(field);
    const change = ({ target }: Event): void => {
      this.#typed[name] = (target as HTMLInputElement).value.trim();
      this.redraw();
    };
    if (words !== undefined)
      return html`<label>${label}
        <select name=${name} @change=${change}>
          <option value="" ?selected=${value === ""}>${otherwise === "none" ? (this.#pattern === this.#tube ? `not set (${words[unset]})` : "not set") : otherwise}</option>
          ${Object.entries(words).map(([word, said]) => html`<option value=${word} ?selected=${word === value}>${said}</option>`)}
        </select></label>`;
    const unit = kind === "duration" ? ", s" : kind === "rate" ? ", jobs/seconds" : "";
    return html`<label title=${hint}>${label}${unit}
      <input name=${name} type=${typeof unset === "string" ? "text" : "number"} min="0" step=${kind === "duration" ? "any" : "1"}
        placeholder=${otherwise} title=${otherwise === "none" ? nothing : otherwise} autocomplete="off" spellcheck="false" .value=${value} @input=${change}></label>`;
  }

  #summary(): Part {
    if (this.#loaded === undefined) return nothing;
    const before = this.#loaded.settings;
    const said = (field: Setting, value: number | string | undefined): string =>
      value === undefined || value === "" ? this.#otherwise(field) : valueInWords(field, value);
    if (this.#changes.length === 0) return html`<p class="quiet">No changes yet.</p>`;
    return html`<ul class="plain">
      ${this.#changes.map(
        (field) =>
          html`<li>${field.label}: ${said(field, before[field.name])} → <b>${said(field, this.#valueOf(field))}</b></li>`,
      )}
    </ul>`;
  }

  #valueOf({ name, unset }: Setting): number | string {
    const text = this.#typed[name] ?? "";
    return text === "" || typeof unset === "string" ? text : Number(text);
  }

  async act(): Promise<string> {
    // Sends only the changes, so as not to overwrite settings that another user changes meanwhile.
    const changes = Object.fromEntries(
      this.#changes.map((field) => {
        const value = this.#valueOf(field);
        return [field.name, value === "" ? null : value];
      }),
    );
    const set = (await send("PATCH", pathOf(this.#pattern), changes)) as Loaded;
    return `Changed the settings of ${this.#pattern}: ${appliesTo(set)}`;
  }
}

function appliesTo({ pattern, tubes: count }: Loaded): string {
  const isPattern = pattern.endsWith("*");
  const it = `Applies to ${tubes(count)} now`;
  if (isPattern) return `${it}. A tube's own settings, and those of a longer prefix, take precedence.`;
  return count === 0 ? `${it}, but takes effect as soon as the tube exists.` : `${it}.`;
}
