// Waiting requests that end once their token is revoked or expires.

/** Interval of the check for expired tokens, ms. */
const LOOK_EACH_MS = 1000;

interface StandingWait {
  /** Tells whether the token is still valid. */
  readonly stands: () => boolean;
  readonly end: () => void;
}

export class StandingWaits {
  readonly #waits = new Set<StandingWait>();
  #timer: NodeJS.Timeout | undefined;

  /** Watches a wait until the returned function is called. */
  add(wait: StandingWait): () => void {
    this.#waits.add(wait);
    this.#timer ??= setInterval(() => this.look(), LOOK_EACH_MS).unref();
    return () => this.#remove(wait);
  }

  /** Ends the waits whose token is no longer valid. */
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
