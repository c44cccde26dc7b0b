// How the threads of a simulation wait: whether they spin, look once more or sleep is drawn, whatever a clock would say.

import type { Asked, Patience, Spin } from "../../src/loop/waiting-policy.ts";
import type { SeededRandom } from "../support/seeded-random.ts";

/** Seldom and short, so that threads sleep often. */
const SPINS = 0.3;
const SPINS_ON = 0.5;
const EXPECTS_AN_ANSWER = 0.5;
const LINGERS = 0.2;
const LOOKS = 0.2;
const LOOKS_MAX = 3;

export class DrawnSpin implements Spin {
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  worked(): void {}

  begins(): boolean {
    return this.#random.chance(SPINS);
  }

  goesOn(): boolean {
    return this.#random.chance(SPINS_ON);
  }

  paid(): void {}
}

export class DrawnPatience implements Patience {
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  worked(): void {}

  looks({ expecting }: Asked): number {
    return expecting > 0 && this.#random.chance(LOOKS) ? this.#random.between(1, LOOKS_MAX) : 0;
  }

  turnsAgain({ expecting, asking }: Asked): boolean {
    return this.#random.chance(expecting > 0 ? EXPECTS_AN_ANSWER : asking > 0 ? LINGERS : 0);
  }
}
