// Options of a log in use, and its callbacks.

import { assert } from "../../base/assert.ts";
import type { BackgroundSync, Disk } from "../disk/disk.ts";
import type { LogState } from "../segments/books.ts";
import type { ChainOptions } from "./batch-chain.ts";

// Decides when to sync: with every batch (-f 0), early enough that at most MS milliseconds can be
// lost (-f MS), or never (-F).

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

/**
 * A sync in the background begins at the latest this part of -f before it must be over, because
 * some syncs take a few times as long as most. One that isn't over in time holds up everything.
 */
const BACKGROUND_PART = 0.2;

export class SyncPolicy {
  readonly #every: SyncEvery;
  readonly never: boolean;
  readonly #headStartMs: number;
  /** Arrival of the oldest record that is not durable; Infinity for none. */
  #dirtySinceMs = Number.POSITIVE_INFINITY;
  /** Time at which the log states that it is durable; Infinity for none. */
  markAtMs = Number.POSITIVE_INFINITY;
  #lastSyncTookMs = 0;
  /** When the sync in the background must be over; Infinity for none. */
  #overAtMs = Number.POSITIVE_INFINITY;

  constructor(every: SyncEvery, inBackground = false) {
    assert(every === "never" || every >= 0, "the interval of syncs is never negative");
    this.#every = every;
    this.never = every === "never";
    this.#headStartMs = inBackground && every !== "never" ? every * BACKGROUND_PART : 0;
  }

  /** Starts the time until the next sync when the first records arrive. */
  dirty(nowMs: number): void {
    if (nowMs < this.#dirtySinceMs) this.#dirtySinceMs = nowMs;
    this.markAtMs = Number.POSITIVE_INFINITY;
  }

  mayBegin(nowMs: number): boolean {
    return this.#every === "never" || nowMs < this.#dirtySinceMs + this.#every;
  }

  /** Notes the begin of a sync in the background, of everything that has arrived. */
  begun(): void {
    assert(this.#dirtySinceMs < Number.POSITIVE_INFINITY, "a sync has something to make durable");
    this.#overAtMs = this.#every === "never" ? Number.POSITIVE_INFINITY : this.#dirtySinceMs + this.#every;
    this.#dirtySinceMs = Number.POSITIVE_INFINITY;
  }

  /** Notes the end of a sync in the background. */
  ended(nowMs: number, tookMs: number): void {
    this.#overAtMs = Number.POSITIVE_INFINITY;
    this.#lastSyncTookMs = tookMs;
    if (this.#dirtySinceMs === Number.POSITIVE_INFINITY && !this.never) this.markAtMs = nowMs + MARK_AFTER_MS;
  }

  /** Records that everything is durable. `marked` means that the log itself states it. */
  synced(nowMs: number, tookMs: number, marked: boolean): void {
    assert(!Number.isNaN(tookMs), "the duration of a sync is a number");
    assert(!Number.isNaN(nowMs), "the end of a sync is a number");
    this.#dirtySinceMs = this.#overAtMs = Number.POSITIVE_INFINITY;
    this.markAtMs = marked || this.never ? Number.POSITIVE_INFINITY : nowMs + MARK_AFTER_MS;
    this.#lastSyncTookMs = tookMs;
  }

  /**
   * Time at which the next sync must begin: early enough to finish in time if it takes twice as
   * long as the last one. While one runs in the background: the time at which it must be over.
   */
  get syncAtMs(): number {
    if (this.#every === "never") return Number.POSITIVE_INFINITY;
    const headStartMs = Math.max(this.#headStartMs, 2 * this.#lastSyncTookMs);
    return Math.min(
      this.#overAtMs,
      this.#dirtySinceMs + this.#every - Math.min(this.#every / 2, headStartMs),
    );
  }
}

/** A line for the server's log output. */
export interface StorageNotice {
  level: "info" | "warn" | "error";
  code: string;
  message: string;
}

/** Asks the shards, which have all jobs in memory, to record parts of jobs once more. */
export interface Restater {
  /** Whether all shards have answered the last request. */
  readonly isAnswered: boolean;
  readonly partsMax: number;
  ask(parts: readonly DamagedPart[]): void;
}

/** A PUT (`from` -1; `bytes` are those of the body that are in pieces) or a piece of a body. */
export interface DamagedPart {
  readonly id: number;
  readonly from: number;
  readonly bytes: number;
}

export interface StorageOptions {
  disk: Disk;
  /** Creates a sync in the background; without it, every sync holds up the thread. */
  background?: (() => BackgroundSync) | undefined;
  log: LogState;
  shards: number;
  segmentBytes: number;
  syncEvery: SyncEvery;
  randomSalt: () => number;
  /** Returns wall-clock time, for the headers of segments. */
  wallMs: () => number;
  /** Returns monotonic time with fractions, for measurements and for ending slices of work. */
  clockMs: () => number;
  notice: (notice: StorageNotice) => void;
  /** Number of ids per lend; LENT_IDS by default. */
  lentIds?: number;
  /**
   * In a group: the place where the log continues the chain of batches, and the sink that sends
   * them to the shared log.
   */
  chain?: ChainOptions | undefined;
  /** Gets records again that can't be read; without it, damage in a sealed segment ends the log. */
  restater?: Restater | undefined;
  /** Takes the segment of a job's full record whenever that changes. */
  files?: { set(id: number, segment: number): void };
}
