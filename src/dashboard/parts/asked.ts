// What a part of a page asks for beside the view: of one thing at a time, asked for again when it
// is too old, or when the user has changed something.

import { CHANGED } from "./dialog.ts";

interface Known<T> {
  readonly key: string;
  answer: T | undefined;
  /** When it was asked for, or answered; -Infinity if it is out of date. */
  atMs: number;
  isAsked: boolean;
  /** Whether the last question was not answered. */
  hasFailed: boolean;
  /** Draws what shows the answer: the latest that did, since a dialog may have been opened anew. */
  redraw: () => void;
}

export class Asked<T> {
  readonly #ageMsMax: number;
  #known: Known<T> | undefined;

  constructor(ageMsMax: number) {
    this.#ageMsMax = ageMsMax;
    window.addEventListener(CHANGED, () => this.outdate());
  }

  /** Returns the last answer about this key; undefined until the first one is there. */
  last(key: string, ask: () => Promise<T>, redraw: () => void): T | undefined {
    if (this.#known?.key !== key) {
      const atMs = Number.NEGATIVE_INFINITY;
      this.#known = { key, answer: undefined, atMs, isAsked: false, hasFailed: false, redraw };
    }
    const known = this.#known;
    known.redraw = redraw;
    if (!known.isAsked && performance.now() - known.atMs > this.#ageMsMax) void this.#renew(known, ask);
    return known.answer;
  }

  /** Whether the last question about this key was not answered. */
  hasFailed(key: string): boolean {
    return this.#known?.key === key && this.#known.hasFailed;
  }

  /** Lets the next draw ask again. */
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
      // The page shows that the connection is lost. A draw later on tries again.
      known.hasFailed = true;
    }
    known.isAsked = false;
    // What was changed meanwhile may be missing in the answer.
    if (known.atMs === beganMs) known.atMs = performance.now();
    known.redraw();
  }
}
