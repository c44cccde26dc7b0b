// A set-tube of any number of tubes.

import type { Engine } from "../../engine/engine.ts";
import type { SettingChange } from "../../engine/tubes/setting-change.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class SetMany implements SlicedCommand {
  readonly #engine: Engine;
  readonly #setting: SettingChange;
  readonly #answer: () => void;

  /** `answer` is called when all matching tubes have the setting. */
  constructor(engine: Engine, setting: SettingChange, answer: () => void) {
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
