// How long a shard without work spins before it sleeps.
//
// A sleeping thread takes 20 to 50 us to wake, a spinning one under 1 us; but a spin burns a core that a busy machine
// needs. So a spin is short, and it must pay: the next ones are left
// out when it was in vain or when the thread lost its core meanwhile (two clock readings far apart).

import { pause } from "../ring/doorbell.ts";
import { monotonicMs } from "../ring/monotonic-clock.ts";

/** Two readings of the clock in a row this far apart mean that the thread was off its core. */
const PREEMPTED_MS = 0.2;
/** After a spin in vain or a lost core the next ones are left out, this many at first, doubling up to the most. */
const LEFT_OUT_MIN = 1;
const LEFT_OUT_MAX = 64;
const LOOKS_PER_CLOCK_READING = 20;

interface Work {
  readonly hasWork: boolean;
  readonly engine: { readonly nextDueAtMs: number };
}

export class IdleSpin {
  readonly #longestMs: number;
  #leftOut = 0;
  #penalty = LEFT_OUT_MIN;

  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  /** The thread took `messages` in a turn: a crowd needs no spin, its next batch makes up for the wake. */
  worked(messages: number): void {
    if (messages > 4) this.#leftOut = Math.max(this.#leftOut, 1);
  }

  /** Spins for a while; true if there is work. */
  wait(work: Work, nowMs: number): boolean {
    if (this.#longestMs === 0) return false;
    if (this.#leftOut > 0) {
      this.#leftOut--;
      return false;
    }
    const untilMs = Math.min(nowMs + this.#longestMs, work.engine.nextDueAtMs);
    let beforeMs = monotonicMs();
    for (;;) {
      for (let i = 0; i < LOOKS_PER_CLOCK_READING; i++) {
        pause();
        if (work.hasWork) {
          this.#penalty = LEFT_OUT_MIN;
          return true;
        }
      }
      const readMs = monotonicMs();
      if (readMs - beforeMs > PREEMPTED_MS || readMs >= untilMs) break;
      beforeMs = readMs;
    }
    this.#leftOut = this.#penalty;
    this.#penalty = Math.min(this.#penalty * 2, LEFT_OUT_MAX);
    return false;
  }
}
