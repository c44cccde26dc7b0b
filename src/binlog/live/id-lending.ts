// Which job ids the log has lent: up to there they may be given to jobs, and after a crash the next id is behind all of them.

/** So many ids are lent at a time. A new lend is made when half of the last one is used up. */
export const LENT_IDS = 65_536;

export class IdLending {
  readonly #idsAtATime: number;
  /** What the log says, or will say with its next record of its own. 0: it has lent none yet. */
  upTo = 0;
  /** Of the record that says so. */
  #sequence = 0;
  #durableUpTo = 0;

  constructor(idsAtATime = LENT_IDS) {
    this.#idsAtATime = idsAtATime;
  }

  /** Ids up to this one may be seen by clients: it is durable that they were lent. 0: none. */
  get durableUpTo(): number {
    return this.#durableUpTo;
  }

  /** Whether ids have to be lent before many are taken behind `highestId`, the last that was. */
  isDue(highestId: number): boolean {
    return highestId > 0 && highestId + this.#idsAtATime / 2 > this.upTo;
  }

  /** Lends what is behind `highestId`, once the caller has appended the record that says so, and told `lent`. */
  extend(highestId: number): void {
    this.upTo = highestId + this.#idsAtATime;
  }

  lent(sequence: number): void {
    this.#sequence = sequence;
  }

  /** Somebody waits for a record that is not durable. */
  waitsForSync(syncedSequence: number): boolean {
    return this.#sequence > syncedSequence;
  }

  synced(syncedSequence: number): void {
    if (!this.waitsForSync(syncedSequence)) this.#durableUpTo = this.upTo;
  }
}
