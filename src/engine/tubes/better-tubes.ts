// A log of tubes whose best job became better, for sessions that keep their tubes in an order
// (ready-order.ts).

import { assert } from "../../base/assert.ts";
import type { Tube } from "./tube.ts";

/** Number of entries to keep. A session that missed more rebuilds its order. */
export const BETTER_TUBES_KEPT = 4096;

export class BetterTubes {
  /**
   * Number of sessions that read the log. Callers check this first and record nothing without
   * readers.
   */
  followers = 0;
  /** Number of entries so far. */
  noted = 0;
  readonly #tubes: Tube[] = [];

  note(tube: Tube): void {
    this.#tubes[this.noted++ % BETTER_TUBES_KEPT] = tube;
  }

  /** Returns the tube of an entry, one of the latest BETTER_TUBES_KEPT. */
  at(entry: number): Tube {
    assert(
      entry < this.noted && entry >= this.noted - BETTER_TUBES_KEPT,
      "only entries that are kept are read",
    );
    return this.#tubes[entry % BETTER_TUBES_KEPT]!;
  }

  /** Stops a session's reading of the log. */
  unfollow(): void {
    assert(this.followers > 0, "a session that stops reading was counted");
    this.followers--;
    // The log must not keep tubes alive without readers.
    if (this.followers === 0) this.#tubes.length = 0;
  }
}
