// Decides who ends a wait over several shards: exactly one of the shards with a job, or the acceptor.
//
// One int32 per connection slot: the number of its present wait (never 0), or 0. Whoever turns the number
// into 0 has ended the wait; everybody else, and everybody with the number of an earlier wait, has lost.

const NOT_WAITING = 0;

export class ClaimWords {
  readonly #words: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.#words = new Int32Array(buffer);
  }

  /** How many slots there are. */
  get length(): number {
    return this.#words.length;
  }

  /** Opens the wait `number` of a slot, to be claimed by anyone. */
  open(slot: number, number: number): void {
    Atomics.store(this.#words, slot, number);
  }

  /** Ends the wait `number`; false if it has ended already. */
  claim(slot: number, number: number): boolean {
    return Atomics.compareExchange(this.#words, slot, number, NOT_WAITING) === number;
  }

  /** Whether the wait `number` still lasts. */
  isOpen(slot: number, number: number): boolean {
    return Atomics.load(this.#words, slot) === number;
  }
}
