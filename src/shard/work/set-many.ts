// A set-tube of any number of tubes.

import type { Engine } from "../../engine/engine.ts";
import type { TubeSetting } from "../../engine/tube-setting.ts";
import type { LongMove } from "./long-move.ts";

export class SetMany implements LongMove {
  readonly #engine: Engine;
  readonly #setting: TubeSetting;
  readonly #answer: () => void;

  /** `answer` is called when all tubes that are meant have it. */
  constructor(engine: Engine, setting: TubeSetting, answer: () => void) {
    this.#engine = engine;
    this.#setting = setting;
    this.#answer = answer;
  }

  get jobs(): number {
    return this.#setting.work;
  }

  step(jobsMax: number, nowMs: number): boolean {
    this.#engine.runDue(nowMs);
    return this.#setting.step(jobsMax, nowMs);
  }

  finish(): void {
    this.#answer();
  }
}
