// Delays RELEASED until the dead job has reached its dead-letter tube, so that several shards
// behave like one.

import { assert } from "../../base/assert.ts";
import type { Engine } from "../../engine/engine.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class AwaitDeadLetter implements SlicedCommand {
  readonly jobs = 1;
  readonly #engine: Engine;
  readonly #id: number;
  readonly finish: () => void;

  constructor(engine: Engine, id: number, finish: () => void) {
    assert(id > 0, "a job that dies has an id");
    this.#engine = engine;
    this.#id = id;
    this.finish = finish;
  }

  get awaitedJob(): number | undefined {
    return this.#engine.isLeaving(this.#id) ? this.#id : undefined;
  }

  step(): boolean {
    return this.awaitedJob === undefined;
  }
}
