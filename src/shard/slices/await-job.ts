// A command that waits for a transfer: of its own job, of a schedule, or of a dead job to a
// dead-letter tube. With these waits, several shards behave like one.

import { assert } from "../../base/assert.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class AwaitJob implements SlicedCommand {
  readonly jobs = 1;
  readonly #awaited: () => number | undefined;
  readonly #finish: () => void;

  /** `awaited` returns the id of the job in transfer, or undefined if the command may continue. */
  constructor(awaited: () => number | undefined, finish: () => void) {
    this.#awaited = awaited;
    this.#finish = finish;
  }

  get awaitedJob(): number | undefined {
    return this.#awaited();
  }

  step(): boolean {
    return this.#awaited() === undefined;
  }

  finish(): void {
    assert(this.#awaited() === undefined, "a command continues when the transfer of its job is over");
    this.#finish();
  }
}
