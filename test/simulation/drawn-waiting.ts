// How the threads of a simulation wait: whether they spin, look once more or sleep is drawn, whatever a clock would say.

import type { Asked, Patience, Spin } from "../../src/loop/waiting-policy.ts";
import type { SeededRandom } from "../support/seeded-random.ts";

const SPINS_ON = 0.5;
const LOOKS_MAX = 3;

export class DrawnSpin implements Spin {
  readonly #random: SeededRandom;
  readonly #patience: number;

  /** `patience` is how likely it waits for more, 0 to 1. */
  constructor(random: SeededRandom, patience: number) {
    this.#random = random;
    this.#patience = patience;
  }

  worked(): void {}

  begins(): boolean {
    return this.#random.chance(this.#patience);
  }

  goesOn(): boolean {
    return this.#random.chance(SPINS_ON);
  }

  paid(): void {}
}

export class DrawnPatience implements Patience {
  readonly #random: SeededRandom;
  readonly #patience: number;

  /** `patience` is how likely it waits for more, 0 to 1. */
  constructor(random: SeededRandom, patience: number) {
    this.#random = random;
    this.#patience = patience;
  }

  worked(): void {}

  looks({ expecting }: Asked): number {
    return expecting > 0 && this.#random.chance(this.#patience) ? this.#random.between(1, LOOKS_MAX) : 0;
  }

  turnsAgain({ expecting, asking }: Asked): boolean {
    return (expecting > 0 || asking > 0) && this.#random.chance(this.#patience);
  }
}
