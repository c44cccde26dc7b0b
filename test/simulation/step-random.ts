// The random source of a simulation: begun anew for each step, so that a step that is left out changes no other's draws.

import { Random } from "../binlog/random.ts";
import { SeededRandom } from "../support/seeded-random.ts";

export class StepRandom extends Random {
  readonly #seed: number;
  #source: SeededRandom;

  constructor(seed: number) {
    super(seed);
    this.#seed = seed;
    this.#source = new SeededRandom(seed);
  }

  override next(): number {
    return this.#source.next();
  }

  /** From here on the numbers of step `step` of this seed; -1 for what comes after the last. */
  beginStep(step: number): void {
    this.#source = new SeededRandom(Math.imul(this.#seed, 0x9e3779b1) ^ Math.imul(step + 2, 0x85ebca6b));
  }
}
