// How long a shard without work spins before it sleeps.

import { pause } from "../ring/doorbell.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";
import { PREEMPTED_MS, SpinBudget } from "../ring/spin-budget.ts";

const LOOKS_PER_CLOCK_READING = 20;
/** A turn with more messages is that of a crowd. */
const CROWD_MESSAGES = 4;

interface Work {
  readonly hasWork: boolean;
  readonly engine: { readonly nextDueAtMs: number };
}

export class IdleSpin {
  readonly #longestMs: number;
  readonly #budget = new SpinBudget();

  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  /** The thread took `messages` in a turn: a crowd needs no spin, its next batch makes up for the wake. */
  worked(messages: number): void {
    if (messages > CROWD_MESSAGES) this.#budget.leaveOutNext();
  }

  /** Spins for a while; true if there is work. */
  wait(work: Work, nowMs: number): boolean {
    if (this.#longestMs === 0 || !this.#budget.mayBegin()) return false;
    const untilMs = Math.min(nowMs + this.#longestMs, work.engine.nextDueAtMs);
    let beforeMs = monotonicMs();
    for (;;) {
      for (let i = 0; i < LOOKS_PER_CLOCK_READING; i++) {
        pause();
        if (work.hasWork) {
          this.#budget.paid();
          return true;
        }
      }
      const readMs = monotonicMs();
      if (readMs - beforeMs > PREEMPTED_MS || readMs >= untilMs) break;
      beforeMs = readMs;
    }
    this.#budget.wasInVain();
    return false;
  }
}
