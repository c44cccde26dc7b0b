// Waiting of simulated threads: the random source, and no clock, decides whether they spin, look
// again or sleep.

import type { AcceptorActivity, PollPolicy, Spin } from "../../../src/loop/waiting-policy.ts";
import type { SeededRandom } from "../../support/seeded-random.ts";

const SPINS_ON = 0.5;
const LOOKS_MAX = 3;

/** Waits for more now and then. */
class Drawn {
  protected readonly random: SeededRandom;
  readonly #pollChance: number;

  /** `pollChance` is how likely it waits for more, 0 to 1. */
  constructor(random: SeededRandom, pollChance: number) {
    this.random = random;
    this.#pollChance = pollChance;
  }

  protected waits(): boolean {
    return this.random.chance(this.#pollChance);
  }

  worked(): void {}
}

export class DrawnSpin extends Drawn implements Spin {
  begins(): boolean {
    return this.waits();
  }

  goesOn(): boolean {
    return this.random.chance(SPINS_ON);
  }

  paid(): void {}
}

export class DrawnPollPolicy extends Drawn implements PollPolicy {
  looks({ pendingReplies }: AcceptorActivity): number {
    return pendingReplies.expecting > 0 && this.waits() ? this.random.between(1, LOOKS_MAX) : 0;
  }

  turnsAgain({ pendingReplies: { expecting, asking } }: AcceptorActivity): boolean {
    return (expecting > 0 || asking > 0) && this.waits();
  }
}
