// Log of the tubes whose best job became better, for sessions that keep their tubes in an order
// (ready-order.ts).

import type { Tube } from "./tube.ts";

/** Entries that are kept. A session that missed more puts its tubes in order anew. */
export const BETTER_TUBES_KEPT = 4096;

export class BetterTubes {
  /** Sessions that read the log. Callers look here first: without any, nothing is noted. */
  followers = 0;
  /** Number of entries so far. */
  noted = 0;
  readonly #tubes: Tube[] = [];

  note(tube: Tube): void {
    this.#tubes[this.noted++ % BETTER_TUBES_KEPT] = tube;
  }

  /** The tube of an entry, one of the latest BETTER_TUBES_KEPT. */
  at(entry: number): Tube {
    return this.#tubes[entry % BETTER_TUBES_KEPT]!;
  }

  /** A session stops reading the log. */
  unfollow(): void {
    this.followers--;
    // So that no tube is kept alive for nobody.
    if (this.followers === 0) this.#tubes.length = 0;
  }
}
