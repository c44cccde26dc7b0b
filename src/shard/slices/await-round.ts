// A command on a batch that waits until every shard has reported to the batch's home.

import { assert } from "../../base/assert.ts";
import type { BatchCounts } from "../../protocol/batch-facts.ts";
import type { Asker } from "../flows/batch-round.ts";
import type { SlicedCommand } from "../sessions/sliced-command.ts";

export class AwaitRound implements SlicedCommand, Asker {
  readonly jobs = 1;
  readonly #number: number;
  readonly #finish: (counts: Readonly<BatchCounts> | undefined) => void;
  #counts: Readonly<BatchCounts> | undefined;
  #isAnswered = false;

  /** `number` is that of the batch; no job has it as its id. */
  constructor(number: number, finish: (counts: Readonly<BatchCounts> | undefined) => void) {
    assert(number > 0, "a round is about a batch with a number");
    this.#number = number;
    this.#finish = finish;
  }

  answer(counts: Readonly<BatchCounts> | undefined): void {
    assert(!this.#isAnswered, "a command gets one answer");
    this.#isAnswered = true;
    this.#counts = counts;
  }

  get awaitedJob(): number | undefined {
    return this.#isAnswered ? undefined : this.#number;
  }

  step(): boolean {
    return this.#isAnswered;
  }

  finish(): void {
    assert(this.#isAnswered, "a command ends with its answer");
    this.#finish(this.#counts);
  }
}
