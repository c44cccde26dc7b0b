// Caches the earliest deadline of several sources of rarely used timers, because every command
// reads it.

interface Source {
  /** Monotonic ms, or Infinity. */
  readonly nextAtMs: number;
}

export class EarliestTime {
  nextAtMs: number = Number.POSITIVE_INFINITY;
  readonly #sources: Source[] = [];

  /** Adds a source, which must call `changed` after each change. */
  join(source: Source): void {
    this.#sources.push(source);
  }

  changed(): void {
    let earliest = Number.POSITIVE_INFINITY;
    for (const { nextAtMs } of this.#sources) if (nextAtMs < earliest) earliest = nextAtMs;
    this.nextAtMs = earliest;
  }
}
