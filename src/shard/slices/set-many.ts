// A set-tube of any number of tubes.

import type { Engine } from "../../engine/engine.ts";
import type { TubeSetting } from "../../engine/tubes/tube-setting.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class SetMany implements SlicedCommand {
  readonly #engine: Engine;
  readonly #setting: TubeSetting;
  readonly #answer: () => void;

  /** `answer` is called when all matching tubes have the setting. */
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
