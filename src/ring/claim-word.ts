// Claim words: decide which thread ends a wait over several shards. Exactly one wins, a shard with
// a job or the acceptor.
//
// Each connection slot has one int32: the number of its current wait (never 0), or 0. The thread
// that changes the number to 0 has ended the wait. All other threads, and those with the number of
// an earlier wait, lose.

import { assert } from "../base/assert.ts";

const NOT_WAITING = 0;

export class ClaimWords {
  readonly #words: Int32Array;

  constructor(buffer: SharedArrayBuffer) {
    this.#words = new Int32Array(buffer);
  }

  /** The number of slots. */
  get length(): number {
    return this.#words.length;
  }

  /** Opens the wait `number` of a slot; any thread may claim it. */
  open(slot: number, number: number): void {
    assert(slot < this.#words.length && number !== NOT_WAITING, "a wait has a slot and a number");
    Atomics.store(this.#words, slot, number);
  }

  /** Ends the wait `number`; returns false if it has already ended. */
  claim(slot: number, number: number): boolean {
    assert(slot < this.#words.length && number !== NOT_WAITING, "a claim names a slot and a wait");
    return Atomics.compareExchange(this.#words, slot, number, NOT_WAITING) === number;
  }

  /** Returns whether the wait `number` is still open. */
  isOpen(slot: number, number: number): boolean {
    assert(slot < this.#words.length && number !== NOT_WAITING, "an open wait has a slot and a number");
    return Atomics.load(this.#words, slot) === number;
  }
}
