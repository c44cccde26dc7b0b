// Doorbells whose ring may come late, as when the ringing thread loses its core between a
// publication and the ring.
//
// Delays here are worse than on a real machine, where a thread continues only after its ring: what
// holds here holds there.

import { Doorbell } from "../../../src/ring/doorbell.ts";

export class LateBells {
  readonly #words: Int32Array;
  readonly #isLate: () => boolean;
  readonly #late: (() => void)[] = [];

  /** `isLate` is asked at each ring. */
  constructor(words: Int32Array, isLate: () => boolean) {
    this.#words = words;
    this.#isLate = isLate;
  }

  /** A bell of a thread. */
  bell(thread: number): Doorbell {
    return new LateBell(this.#words, thread, (ring) => {
      const isLate = this.#isLate();
      if (isLate) this.#late.push(ring);
      return isLate;
    });
  }

  get hasLate(): boolean {
    return this.#late.length > 0;
  }

  /** One of those that are late rings. */
  ringOne(): void {
    this.#late.shift()?.();
  }

  ringAll(): void {
    while (this.hasLate) this.ringOne();
  }
}

class LateBell extends Doorbell {
  readonly #postpone: (ring: () => void) => boolean;

  constructor(words: Int32Array, thread: number, postpone: (ring: () => void) => boolean) {
    super(words, thread);
    this.#postpone = postpone;
  }

  override ring(): boolean {
    return this.#postpone(() => void super.ring()) ? false : super.ring();
  }
}
