// How many jobs of a tube may be given out: at the same time, and in the course of time (a token bucket).

import type { TubePolicy } from "./tube-settings.ts";

/** What `save` writes. */
export const GATE_NUMBERS = 4;

export class RateLimiter {
  #reservedMax = Number.POSITIVE_INFINITY;
  /** Tokens a millisecond; 0: as many as anybody wants. */
  #rate = 0;
  #burst = 0;
  #tokens = 0;
  #atMs = 0;

  /** Whether settings close a tube at times. */
  static isNeeded(policy: TubePolicy | undefined): boolean {
    return policy !== undefined && (policy.maxReserved !== Number.POSITIVE_INFINITY || policy.rate !== "");
  }

  /** From now on as the settings say. A bucket that is new is full. */
  set(policy: TubePolicy, nowMs: number): void {
    this.#reservedMax = policy.maxReserved;
    const burst = Math.max(1, policy.burst);
    if (this.#rate === 0) this.#tokens = burst;
    else this.#refill(nowMs);
    this.#atMs = Math.max(this.#atMs, nowMs);
    this.#rate = perMs(policy.rate);
    this.#burst = burst;
    this.#tokens = Math.min(this.#tokens, burst);
  }

  /** Tokens by now, for who asks; Infinity without a rate. */
  tokens(nowMs: number): number {
    if (this.#rate === 0) return Number.POSITIVE_INFINITY;
    this.#refill(nowMs);
    return this.#tokens;
  }

  /** Whether it has been set so: what it may give in the course of time would be the same. */
  isSetTo({ rate, burst }: TubePolicy): boolean {
    return perMs(rate) === this.#rate && Math.max(1, burst) === this.#burst;
  }

  /** Whether nothing would be different if it were made anew. */
  get isFull(): boolean {
    return this.#rate === 0 || this.#tokens >= this.#burst;
  }

  /** When that will be so if no job is given until then, ms. */
  get fullAtMs(): number {
    return this.#hasAtMs(this.#burst);
  }

  /** Writes what is left of its bucket, as GATE_NUMBERS numbers. */
  save(numbers: Float64Array, at: number): void {
    numbers[at] = this.#rate;
    numbers[at + 1] = this.#burst;
    numbers[at + 2] = this.#tokens;
    numbers[at + 3] = this.#atMs;
  }

  /** The same bucket again; how many may be given at the same time, the next `set` says. */
  load(numbers: Float64Array, at: number): this {
    this.#rate = numbers[at]!;
    this.#burst = numbers[at + 1]!;
    this.#tokens = numbers[at + 2]!;
    this.#atMs = numbers[at + 3]!;
    return this;
  }

  /** Whether one more job may be given while `reserved` are. */
  isOpen(reserved: number, nowMs: number): boolean {
    return reserved < this.#reservedMax && (this.#rate === 0 || this.tokens(nowMs) >= 1);
  }

  /** How many jobs may be given now, one after the other, while `reserved` are. */
  gives(reserved: number, nowMs: number): number {
    return Math.max(0, Math.min(this.#reservedMax - reserved, Math.floor(this.tokens(nowMs))));
  }

  /** A job was given: also one that was asked for by its id, which no gate keeps back; then there may be less than none. */
  took(nowMs: number): void {
    if (this.#rate === 0) return;
    this.#refill(nowMs);
    this.#tokens = Math.max(-this.#burst, this.#tokens - 1);
  }

  /** When there is a token, if there is none: ms, Infinity if it is not for that. */
  tokenAtMs(nowMs: number): number {
    if (this.#rate === 0 || this.tokens(nowMs) >= 1) return Number.POSITIVE_INFINITY;
    return this.#hasAtMs(1);
  }

  /** When there will be so many tokens, which there are not yet, ms. */
  #hasAtMs(tokens: number): number {
    // Not a moment later: what a full bucket would have got meanwhile is lost. In spite of rounding they are there by then.
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
    this.#atMs = nowMs;
  }
}

/** Tokens a millisecond of "5/60"; 0 of "". */
function perMs(rate: string): number {
  if (rate === "") return 0;
  const [jobs, seconds] = rate.split("/");
  return Number(jobs) / (Number(seconds) * 1000);
}
