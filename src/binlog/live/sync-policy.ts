// Decides when to sync: with every batch (-f 0), early enough that at most MS milliseconds can be
// lost (-f MS), or never (-F).

import { assert } from "../../base/assert.ts";

/**
 * Maximum milliseconds between syncs; 0 for each batch; "never" for syncs only when the log itself
 * needs them.
 */
export type SyncEvery = number | "never";

/**
 * Silence after which the log states that it is durable, so that recovery can tell damage from a
 * torn tail.
 */
const MARK_AFTER_MS = 100;

export class SyncPolicy {
  readonly #every: SyncEvery;
  /** Arrival of the oldest record that is not durable; Infinity for none. */
  #dirtySinceMs = Number.POSITIVE_INFINITY;
  #markAtMs = Number.POSITIVE_INFINITY;
  #lastSyncTookMs = 0;

  constructor(every: SyncEvery) {
    assert(every === "never" || every >= 0, "the interval of syncs is never negative");
    this.#every = every;
  }

  get never(): boolean {
    return this.#every === "never";
  }

  /** Starts the time until the next sync when the first records arrive. */
  dirty(nowMs: number): void {
    assert(nowMs >= 0, "the time is never negative");
    if (nowMs < this.#dirtySinceMs) this.#dirtySinceMs = nowMs;
    this.#markAtMs = Number.POSITIVE_INFINITY;
  }

  /** Records that everything is durable. `marked` means that the log itself states it. */
  synced(nowMs: number, tookMs: number, marked: boolean): void {
    assert(!Number.isNaN(tookMs), "the duration of a sync is a number");
    assert(!Number.isNaN(nowMs), "the end of a sync is a number");
    this.#dirtySinceMs = Number.POSITIVE_INFINITY;
    this.#markAtMs = marked || this.never ? Number.POSITIVE_INFINITY : nowMs + MARK_AFTER_MS;
    this.#lastSyncTookMs = tookMs;
  }

  /**
   * Time at which the next sync must begin: early enough to finish in time if it takes twice as
   * long as the last one.
   */
  get syncAtMs(): number {
    if (this.#every === "never") return Number.POSITIVE_INFINITY;
    return this.#dirtySinceMs + this.#every - Math.min(this.#every / 2, 2 * this.#lastSyncTookMs);
  }

  get markAtMs(): number {
    return this.#markAtMs;
  }
}
