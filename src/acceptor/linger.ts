// Whether an acceptor without work looks at sockets and rings a little longer before it sleeps.
//
// For one or two clients that ask and wait, each sleep costs a wake-up on the way of every command. A crowd needs no
// lingering: somebody's bytes are always there.

import { PREEMPTED_MS, SpinBudget } from "../ring/spin-budget.ts";

/** With more clients than this since the last sleep the acceptor does not linger. */
export const FEW_CLIENTS = 2;

export class Linger {
  readonly #longestMs: number;
  readonly #budget = new SpinBudget();
  /** End of the lingering under way, 0 for none. */
  #untilMs = 0;
  #lookedAtMs = 0;

  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  /** There is work. */
  worked(): void {
    if (this.#untilMs === 0) return;
    this.#untilMs = 0;
    this.#budget.paid();
  }

  /** There is none in this turn: true if the thread should look again. Lingers for up to `moreMs` longer than usual. */
  again(nowMs: number, moreMs = 0): boolean {
    if (this.#longestMs === 0) return false;
    if (this.#untilMs === 0) {
      if (!this.#budget.mayBegin()) return false;
      this.#untilMs = nowMs + this.#longestMs;
    } else if (nowMs >= this.#untilMs + moreMs || nowMs - this.#lookedAtMs > PREEMPTED_MS) {
      this.#untilMs = 0;
      this.#budget.wasInVain();
      return false;
    }
    this.#lookedAtMs = nowMs;
    return true;
  }
}
