// When the first of several sources of timers is due that are seldom set: every command asks, so it is kept.

interface Source {
  /** Monotonic ms, or Infinity. */
  readonly nextAtMs: number;
}

export class EarliestTime {
  nextAtMs: number = Number.POSITIVE_INFINITY;
  readonly #sources: Source[] = [];

  /** From now on this source says, too, when it has changed. */
  join(source: Source): void {
    this.#sources.push(source);
  }

  changed(): void {
    let earliest = Number.POSITIVE_INFINITY;
    for (const { nextAtMs } of this.#sources) if (nextAtMs < earliest) earliest = nextAtMs;
    this.nextAtMs = earliest;
  }
}
