// Decides when to sync: with every batch (-f 0), early enough that at most MS milliseconds can be
// lost (-f MS), or never (-F).

import { assert } from "../../base/assert.ts";

/**
 * Maximum milliseconds between syncs; 0 for each batch; "never" for only where the log itself needs
 * it.
 */
export type SyncEvery = number | "never";

/**
 * Silence after which the log states that it is durable, so that damage can be told from a torn
 * tail.
 */
const MARK_AFTER_MS = 100;

export class SyncPolicy {
  readonly #every: SyncEvery;
  /** When the oldest record that is not durable arrived; Infinity for none. */
  #dirtySinceMs = Number.POSITIVE_INFINITY;
  #markAtMs = Number.POSITIVE_INFINITY;
  #lastSyncTookMs = 0;

  constructor(every: SyncEvery) {
    assert(every === "never" || every >= 0, "syncs are some time apart");
    this.#every = every;
  }

  get never(): boolean {
    return this.#every === "never";
  }

  /** Notes that records arrived. */
  dirty(nowMs: number): void {
    assert(nowMs >= 0, "records become dirty at a time");
    if (nowMs < this.#dirtySinceMs) this.#dirtySinceMs = nowMs;
    this.#markAtMs = Number.POSITIVE_INFINITY;
  }

  /** Notes that everything is durable. `marked` means that the log itself states it. */
  synced(nowMs: number, tookMs: number, marked: boolean): void {
    assert(!Number.isNaN(tookMs), "a sync takes some time");
    assert(!Number.isNaN(nowMs), "a sync ends at a time");
    this.#dirtySinceMs = Number.POSITIVE_INFINITY;
    this.#markAtMs = marked || this.never ? Number.POSITIVE_INFINITY : nowMs + MARK_AFTER_MS;
    this.#lastSyncTookMs = tookMs;
  }

  /**
   * When the next sync has to begin: early enough to finish in time if it takes twice as long as
   * the last one.
   */
  get syncAtMs(): number {
    if (this.#every === "never") return Number.POSITIVE_INFINITY;
    return this.#dirtySinceMs + this.#every - Math.min(this.#every / 2, 2 * this.#lastSyncTookMs);
  }

  get markAtMs(): number {
    return this.#markAtMs;
  }
}
