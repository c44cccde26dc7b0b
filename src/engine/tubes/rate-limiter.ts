// Limits the reservations of a tube: how many at the same time, and how many over time (a token
// bucket).

import { assert } from "../../base/assert.ts";
import type { TubePolicy } from "./tube-settings.ts";

/** The number of values that `save` writes. */
export const LIMITER_NUMBERS = 4;

export class RateLimiter {
  #reservedMax = Number.POSITIVE_INFINITY;
  /** Tokens per millisecond; 0 for no limit. */
  #rate = 0;
  #burst = 0;
  #tokens = 0;
  #atMs = 0;

  /** Returns whether the settings ever close a tube. */
  static isNeeded(policy: TubePolicy | undefined): boolean {
    return policy !== undefined && (policy.maxReserved !== Number.POSITIVE_INFINITY || policy.rate !== "");
  }

  /** Applies new settings. A new bucket is full. */
  set(policy: TubePolicy, nowMs: number): void {
    this.#reservedMax = policy.maxReserved;
    const burst = Math.max(1, policy.burst);
    if (this.#rate === 0) this.#tokens = burst;
    else this.#refill(nowMs);
    this.#atMs = Math.max(this.#atMs, nowMs);
    this.#rate = perMs(policy.rate);
    this.#burst = burst;
    this.#tokens = Math.min(this.#tokens, burst);
    assert(this.#rate >= 0 && this.#tokens >= -Number.MAX_VALUE, "a bucket has a rate and its tokens");
  }

  /** Returns the current number of tokens; Infinity without a rate. */
  tokens(nowMs: number): number {
    if (this.#rate === 0) return Number.POSITIVE_INFINITY;
    this.#refill(nowMs);
    return this.#tokens;
  }

  /** Returns whether the rate and the burst already have these settings. */
  isSetTo({ rate, burst }: TubePolicy): boolean {
    return perMs(rate) === this.#rate && Math.max(1, burst) === this.#burst;
  }

  /** Whether a new rate limiter would be equivalent. */
  get isFull(): boolean {
    return this.#rate === 0 || this.#tokens >= this.#burst;
  }

  /** When that will be the case if no job is reserved until then, ms. */
  get fullAtMs(): number {
    return this.#hasAtMs(this.#burst);
  }

  /** Writes the state of the bucket as LIMITER_NUMBERS numbers. */
  save(numbers: Float64Array, at: number): void {
    assert(at >= 0 && at + LIMITER_NUMBERS <= numbers.length, "a bucket is saved in its row");
    numbers[at] = this.#rate;
    numbers[at + 1] = this.#burst;
    numbers[at + 2] = this.#tokens;
    numbers[at + 3] = this.#atMs;
  }

  /** Restores the bucket; the next `set` sets the limit of simultaneous reservations. */
  load(numbers: Float64Array, at: number): this {
    this.#rate = numbers[at]!;
    this.#burst = numbers[at + 1]!;
    this.#tokens = numbers[at + 2]!;
    this.#atMs = numbers[at + 3]!;
    assert(this.#rate > 0 && this.#tokens <= this.#burst, "a bucket that was kept has its rate");
    return this;
  }

  /** Returns whether one more job may be reserved while `reserved` are. */
  isOpen(reserved: number, nowMs: number): boolean {
    return reserved < this.#reservedMax && (this.#rate === 0 || this.tokens(nowMs) >= 1);
  }

  /** Returns how many jobs may be reserved now, one after another, while `reserved` are. */
  gives(reserved: number, nowMs: number): number {
    assert(reserved >= 0, "the jobs that are held are counted");
    return Math.max(0, Math.min(this.#reservedMax - reserved, Math.floor(this.tokens(nowMs))));
  }

  /**
   * Counts a reservation. Reservations by id ignore the limit, so the number of tokens may become
   * negative.
   */
  took(nowMs: number): void {
    if (this.#rate === 0) return;
    this.#refill(nowMs);
    this.#tokens = Math.max(-this.#burst, this.#tokens - 1);
    assert(this.#tokens <= this.#burst, "a bucket that gave a token has no more than its burst");
  }

  /**
   * Returns when the next token is available, ms; Infinity if one is available already or there is
   * no rate.
   */
  tokenAtMs(nowMs: number): number {
    if (this.#rate === 0 || this.tokens(nowMs) >= 1) return Number.POSITIVE_INFINITY;
    return this.#hasAtMs(1);
  }

  /** Returns when there will be this many tokens, more than now, ms. */
  #hasAtMs(tokens: number): number {
    assert(this.#rate > 0, "tokens arrive at a rate");
    assert(tokens <= this.#burst, "a bucket never has more tokens than its burst");
    // The time must not be late, because a full bucket would lose tokens meanwhile. Nor may it be
    // early: despite rounding, the tokens must be there by then.
    const missingMs = (tokens - this.#tokens) / this.#rate;
    let atMs = this.#atMs + missingMs;
    for (let step = Math.max(atMs, missingMs) * Number.EPSILON; this.#tokensAt(atMs) < tokens; step *= 2)
      atMs += step;
    return atMs;
  }

  #tokensAt(atMs: number): number {
    return Math.min(this.#burst, this.#tokens + (atMs - this.#atMs) * this.#rate);
  }

  #refill(nowMs: number): void {
    if (nowMs <= this.#atMs) return;
    this.#tokens = this.#tokensAt(nowMs);
    assert(this.#tokens <= this.#burst, "a bucket has no more tokens than its burst");
    this.#atMs = nowMs;
  }
}

/** Returns the tokens per millisecond of "5/60"; 0 for "". */
function perMs(rate: string): number {
  if (rate === "") return 0;
  const [jobs, seconds] = rate.split("/");
  return Number(jobs) / (Number(seconds) * 1000);
}
