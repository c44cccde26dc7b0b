// Requests that wait, and end once the token that they came with counts no more: it was taken away, or its time is over.

/** Tokens that end by themselves are looked for so often, ms. */
const LOOK_EACH_MS = 1000;

interface StandingWait {
  /** Whether the token still counts. */
  readonly stands: () => boolean;
  readonly end: () => void;
}

export class StandingWaits {
  readonly #waits = new Set<StandingWait>();
  #timer: NodeJS.Timeout | undefined;

  /** Watches over a wait until the returned function is called. */
  add(wait: StandingWait): () => void {
    this.#waits.add(wait);
    this.#timer ??= setInterval(() => this.look(), LOOK_EACH_MS).unref();
    return () => this.#remove(wait);
  }

  /** Ends those that stand no more. */
  look(): void {
    for (const wait of this.#waits) {
      if (wait.stands()) continue;
      this.#remove(wait);
      wait.end();
    }
  }

  #remove(wait: StandingWait): void {
    this.#waits.delete(wait);
    if (this.#waits.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
