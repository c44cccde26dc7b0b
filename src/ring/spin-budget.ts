// Whether a thread without work may spin for a while before it sleeps, learned from whether earlier spins paid.
//
// A sleeping thread takes 20 to 50 us to wake, a spinning one under 1 us; but a spin burns a core that a busy machine
// needs. So a spin is short, and the next ones are left out when it was in vain or when the thread lost its core meanwhile.

/** Two readings of the clock in a row this far apart mean that the thread was off its core, ms. */
export const PREEMPTED_MS = 0.2;

/** After a spin in vain the next ones are left out, this many at first, doubling up to the most. */
const LEFT_OUT_MIN = 1;
const LEFT_OUT_MAX = 16;

export class SpinBudget {
  #leftOut = 0;
  #penalty = LEFT_OUT_MIN;

  /** Asked once before each spin: false leaves it out. */
  mayBegin(): boolean {
    if (this.#leftOut === 0) return true;
    this.#leftOut--;
    return false;
  }

  /** Work came during the spin. */
  paid(): void {
    this.#penalty = LEFT_OUT_MIN;
  }

  /** It did not, or the thread lost its core. */
  wasInVain(): void {
    this.#leftOut = this.#penalty;
    this.#penalty = Math.min(this.#penalty * 2, LEFT_OUT_MAX);
  }

  /** Leaves out the next spin, because it would not pay. */
  leaveOutNext(): void {
    this.#leftOut = Math.max(this.#leftOut, 1);
  }
}
