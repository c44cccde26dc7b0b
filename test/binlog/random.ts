// The seeded random source of the tests, with what the simulated disk needs on top.

import { SeededRandom } from "../support/seeded-random.ts";

export class Random extends SeededRandom {
  /** A whole number from 0 to n - 1. */
  below(n: number): number {
    return this.between(0, n - 1);
  }

  override pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }

  /** 32 random bits. */
  bits(): number {
    return this.below(0x1_0000_0000);
  }
}
