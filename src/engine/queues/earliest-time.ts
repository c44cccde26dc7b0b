// Caches the earliest deadline of several sources of rarely used timers, because every command
// reads it.

import { assert, CHECKED } from "../../base/assert.ts";

interface Source {
  /** Monotonic ms, or Infinity. */
  readonly nextAtMs: number;
}

export class EarliestTime {
  nextAtMs: number = Number.POSITIVE_INFINITY;
  readonly #sources: Source[] = [];

  /** Adds a source, which must call `changed` after each change. */
  join(source: Source): void {
    assert(!this.#sources.includes(source), "a source joins once");
    this.#sources.push(source);
  }

  changed(): void {
    let earliest = Number.POSITIVE_INFINITY;
    for (const { nextAtMs } of this.#sources) {
      if (CHECKED) assert(!Number.isNaN(nextAtMs), "a deadline is a time");
      if (nextAtMs < earliest) earliest = nextAtMs;
    }
    this.nextAtMs = earliest;
  }
}
