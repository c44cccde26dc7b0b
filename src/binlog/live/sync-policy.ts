// When to sync: with every batch (-f 0), so early that at most MS milliseconds can be lost (-f MS), or never
// (-F).

/** Milliseconds between syncs at most; 0: each batch; "never": only where the log itself needs it. */
export type SyncEvery = number | "never";

/**
 * After this much silence the log notes that it is durable, so that damage is told apart from a torn tail.
 */
const MARK_AFTER_MS = 100;

export class SyncPolicy {
  readonly #every: SyncEvery;
  /** When the oldest record that is not durable came; Infinity: none. */
  #dirtySinceMs = Number.POSITIVE_INFINITY;
  #markAtMs = Number.POSITIVE_INFINITY;
  #lastSyncTookMs = 0;

  constructor(every: SyncEvery) {
    this.#every = every;
  }

  get never(): boolean {
    return this.#every === "never";
  }

  /** Records came in. */
  dirty(nowMs: number): void {
    if (nowMs < this.#dirtySinceMs) this.#dirtySinceMs = nowMs;
    this.#markAtMs = Number.POSITIVE_INFINITY;
  }

  /** All is durable; `marked`: and the log says so. */
  synced(nowMs: number, tookMs: number, marked: boolean): void {
    this.#dirtySinceMs = Number.POSITIVE_INFINITY;
    this.#markAtMs = marked || this.never ? Number.POSITIVE_INFINITY : nowMs + MARK_AFTER_MS;
    this.#lastSyncTookMs = tookMs;
  }

  /** When a sync has to begin: early enough to be done in time if it takes twice as long as the last one. */
  get syncAtMs(): number {
    if (this.#every === "never") return Number.POSITIVE_INFINITY;
    return this.#dirtySinceMs + this.#every - Math.min(this.#every / 2, 2 * this.#lastSyncTookMs);
  }

  get markAtMs(): number {
    return this.#markAtMs;
  }
}
