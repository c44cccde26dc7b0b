// Data that a part of a page requests besides the view: about one thing at a time, requested again
// when it is too old or when the user has changed something.

import { CHANGED } from "./dialog.ts";

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
