// Lends job ids in durable ranges: only lent ids become visible, and after a crash the next id
// comes after all of them.

import { assert, CHECKED } from "../../base/assert.ts";

/** Number of ids per lend. The log lends more when half of the last range is used. */
export const LENT_IDS = 65_536;

export class IdLending {
  readonly #idsAtATime: number;
  /**
   * The highest lent id according to the log, including its next own record. 0 if it has lent none.
   */
  upTo = 0;
  /** Sequence of the record that states the lend. */
  #sequence = 0;
  #durableUpTo = 0;
  /** The highest id that a put has taken, as far as the log knows. */
  takenUpTo = 0;

  constructor(idsAtATime = LENT_IDS) {
    assert(idsAtATime > 0, "a lend has ids");
    this.#idsAtATime = idsAtATime;
  }

  /** The highest id that clients may see, because its lend is durable. 0 for none. */
  get durableUpTo(): number {
    return this.#durableUpTo;
  }

  /** Returns whether the log must lend more ids, given the highest id taken so far. */
  isDue(highestId: number): boolean {
    if (CHECKED) assert(highestId >= 0, "the highest id is not negative");
    return highestId > 0 && highestId + this.#idsAtATime / 2 > this.upTo;
  }

  /** Whether a put waits until a lend is durable. */
  get isUrgent(): boolean {
    return this.#isUrgentFor(this.takenUpTo);
  }

  /** Whether the log must lend, or make a lend durable, given the highest id taken so far. */
  needsTurn(highestId: number): boolean {
    return this.isDue(highestId) || this.#isUrgentFor(highestId);
  }

  #isUrgentFor(highestId: number): boolean {
    if (CHECKED) assert(highestId >= 0, "the highest id taken is not negative");
    return this.upTo > this.#durableUpTo && highestId > this.#durableUpTo;
  }

  /**
   * Lends the ids after `highestId`. The caller then appends the record that states the lend, and
   * calls `lent`.
   */
  extend(highestId: number): void {
    assert(highestId > 0 && highestId + this.#idsAtATime > this.upTo, "a lend only adds ids");
    this.upTo = highestId + this.#idsAtATime;
  }

  lent(sequence: number): void {
    assert(sequence > this.#sequence, "each lend has its own record");
    this.#sequence = sequence;
  }

  /** Returns whether the record of a lend, which a put may wait for, is not durable yet. */
  waitsForSync(syncedSequence: number): boolean {
    return this.#sequence > syncedSequence;
  }

  synced(syncedSequence: number): void {
    if (!this.waitsForSync(syncedSequence)) this.#durableUpTo = this.upTo;
  }
}
