// Waits until a batch is worth taking: until `min` jobs are ready, or `linger` after the first was.
//
// No job is taken or held back during the wait. The acceptor counts the ready jobs of all watched
// shards. If some are missing, it divides the missing ones evenly: each shard reports when it has
// its share more than at the count. As long as no shard has, fewer than `min` are ready. So a wait
// over k shards counts about k * log(min) times, and one on a single shard once.
//
// The first job starts the time of `linger`: at the count, or else on the shard that gets it, whose
// timer then reports. If other clients have taken all jobs by the next count, the time starts
// again with the next job.

import { assert } from "../../base/assert.ts";
import { WaitView } from "../../message/request.ts";
import { CandidatesView } from "../../message/response.ts";
import { U32_MAX } from "../../protocol/limits.ts";
import type { Request } from "../../protocol/request.ts";
import type { Signal } from "./conversation.ts";

/** What a client asks of a batch that fills. */
export interface FillTerms {
  readonly min: number;
  /** Infinity for a wait that only the timeout of the command limits. */
  readonly lingerMs: number;
}

export class BatchFill {
  readonly #terms: FillTerms;
  /** The shards with watched tubes. */
  readonly #watched: ReadonlySet<number>;
  /** Ready jobs by shard. */
  readonly #ready = new Map<number, number>();
  #lingerEndsAtMs = Number.POSITIVE_INFINITY;

  constructor(terms: FillTerms, watched: readonly number[]) {
    assert(terms.min > 0 && watched.length > 0, "a batch fills with jobs of watched tubes");
    this.#terms = terms;
    this.#watched = new Set(watched);
  }

  /** The number of ready jobs below which the batch is not taken now. */
  get takesFrom(): number {
    return this.#count >= this.#terms.min ? this.#terms.min : 1;
  }

  /** Whether one shard has all watched tubes. */
  get isOnOneShard(): boolean {
    return this.#watched.size === 1;
  }

  /** Whether all ready jobs are on this shard. */
  isOnlyOn(shard: number): boolean {
    return this.#ready.get(shard) === this.#count;
  }

  get lingerEndsAtMs(): number {
    return this.#lingerEndsAtMs;
  }

  get #count(): number {
    let count = 0;
    for (const ready of this.#ready.values()) count += ready;
    return count;
  }

  note(signal: Signal): void {
    this.#ready.set(signal.shard, CandidatesView.ready(signal));
    this.#lingerEndsAtMs = Math.min(this.#lingerEndsAtMs, CandidatesView.lingerEndsAtMs(signal));
  }

  /** Returns whether the batch is to be taken, after all shards have counted. */
  isDue(nowMs: number): boolean {
    const count = this.#count;
    if (count === 0) this.#lingerEndsAtMs = Number.POSITIVE_INFINITY;
    else if (this.#lingerEndsAtMs === Number.POSITIVE_INFINITY)
      this.#lingerEndsAtMs = nowMs + this.#terms.lingerMs;
    return count >= this.#terms.min || this.#lingerEndsAtMs <= nowMs;
  }

  /** Adds to the message that makes a shard wait. */
  fillWait(message: Request, shard: number): void {
    const missing = Math.ceil((this.#terms.min - this.#count) / this.#watched.size);
    assert(missing > 0, "a batch that is full waits for no job");
    const isLingering = this.#lingerEndsAtMs !== Number.POSITIVE_INFINITY;
    const lingerMs = isLingering ? Number.POSITIVE_INFINITY : this.#terms.lingerMs;
    const fillsAt = this.#watched.has(shard) ? (this.#ready.get(shard) ?? 0) + missing : U32_MAX;
    WaitView.fillBatch(message, fillsAt, lingerMs);
  }
}
