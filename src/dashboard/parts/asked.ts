// What a part of a page asks for beside the view: of one thing at a time, asked for again when it
// is too old, or when the user has changed something.

import { CHANGED } from "./dialog.ts";

interface Known<T> {
  readonly key: string;
  answer: T | undefined;
  /** When it was asked for, or answered; -Infinity if it is out of date. */
  atMs: number;
  isAsked: boolean;
}

export class Asked<T> {
  readonly #ageMsMax: number;
  #known: Known<T> | undefined;

  constructor(ageMsMax: number) {
    this.#ageMsMax = ageMsMax;
    window.addEventListener(CHANGED, () => {
      if (this.#known !== undefined) this.#known.atMs = Number.NEGATIVE_INFINITY;
    });
  }

  /** Returns the last answer about this key; undefined until the first one is there. */
  last(key: string, ask: () => Promise<T>, redraw: () => void): T | undefined {
    if (this.#known?.key !== key)
      this.#known = { key, answer: undefined, atMs: Number.NEGATIVE_INFINITY, isAsked: false };
    const known = this.#known;
    if (!known.isAsked && Date.now() - known.atMs > this.#ageMsMax) void this.#renew(known, ask, redraw);
    return known.answer;
  }

  async #renew(known: Known<T>, ask: () => Promise<T>, redraw: () => void): Promise<void> {
    const beganMs = Date.now();
    known.isAsked = true;
    known.atMs = beganMs;
    try {
      known.answer = await ask();
    } catch {
      // The page shows that the connection is lost. A draw later on tries again.
    }
    known.isAsked = false;
    // What was changed meanwhile may be missing in the answer.
    if (known.atMs === beganMs) known.atMs = Date.now();
    redraw();
  }
}
