// Limits the reservations of a tube: how many at the same time, and how many over time (a token
// bucket).

import { assert, CHECKED } from "../../base/assert.ts";
import { type EarliestTime, IndexedHeap } from "../queues/heaps.ts";
import type { TubePolicy } from "./tube-settings.ts";

/** The number of values that `save` writes. */
const LIMITER_NUMBERS = 4;

export class RateLimiter {
  #reservedMax = Number.POSITIVE_INFINITY;
  /** Tokens per millisecond; 0 for no limit. */
  #rate = 0;
  #burst = 0;
  #tokens = 0;
  #atMs = 0;

  /** Returns whether the settings ever close a tube. */
  static isNeeded(policy: TubePolicy | undefined): boolean {
    return policy !== undefined && (reservedMaxOf(policy) !== Number.POSITIVE_INFINITY || policy.rate !== "");
  }

  /** Applies new settings. A new bucket is full. */
  set(policy: TubePolicy, nowMs: number): void {
    this.#reservedMax = reservedMaxOf(policy);
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

const reservedMaxOf = ({ paused, maxReserved }: TubePolicy): number => (paused === "yes" ? 0 : maxReserved);

/** Returns the tokens per millisecond of "5/60"; 0 for "". */
function perMs(rate: string): number {
  if (rate === "") return 0;
  const [jobs, seconds] = rate.split("/");
  return Number(jobs) / (Number(seconds) * 1000);
}

// Token buckets of deleted tubes, so that a tube that is soon recreated doesn't get a full one.
//
// A bucket is forgotten as soon as it would be full, since a new tube's bucket is full. With low
// rates this may take years, so the number of buckets is limited; the first to be full is forgotten
// first.

/** Maximum number of buckets per shard. */
export const RETIRED_LIMITERS_MAX = 10000;

/**
 * Rows of numbers, the next full bucket on top. Objects would live just long enough to reach V8's
 * old generation.
 */
class LimiterRows extends IndexedHeap {
  /** The saved numbers of each row's rate limiter. */
  readonly limiters: Float64Array;
  readonly fullAtMs: Float64Array;
  readonly #positions: Int32Array;

  constructor(rows: number) {
    super();
    this.limiters = new Float64Array(rows * LIMITER_NUMBERS);
    this.fullAtMs = new Float64Array(rows);
    this.#positions = new Int32Array(rows).fill(-1);
  }

  protected override less(a: number, b: number): boolean {
    return this.fullAtMs[a]! < this.fullAtMs[b]!;
  }

  protected override positionOf(row: number): number {
    return this.#positions[row]!;
  }

  protected override place(row: number, position: number): void {
    this.#positions[row] = position;
  }
}

export class RetiredLimiters {
  /** Number of buckets. Read by every put. */
  size = 0;
  /** When the next bucket is full, or Infinity. */
  nextAtMs: number = Number.POSITIVE_INFINITY;
  readonly #rowOf = new Map<string, number>();
  /** The tube name of each row. */
  readonly #names: string[] = [];
  readonly #freeRows: number[] = [];
  #rows: LimiterRows | undefined;
  readonly #max: number;
  readonly #earliest: EarliestTime | undefined;

  /** Keeps `earliest` up to date with `nextAtMs`. */
  constructor(earliest?: EarliestTime, max = RETIRED_LIMITERS_MAX) {
    this.#max = max;
    this.#earliest = earliest;
    earliest?.join(this);
  }

  has(name: string): boolean {
    return this.#rowOf.has(name);
  }

  /** Forgets the bucket that is full next. */
  forgetNext(): void {
    const row = this.#rows?.top ?? -1;
    if (row >= 0) this.#forget(row);
  }

  /**
   * Returns the rate limiter of a tube that exists again. Returns undefined if none was kept, or if
   * the rate has changed meanwhile: the time of that change is unknown.
   */
  take(name: string, policy: TubePolicy | undefined): RateLimiter | undefined {
    const row = this.#rowOf.get(name);
    if (row === undefined) return undefined;
    assert(this.#names[row] === name, "a bucket has the name of its tube");
    const limiter = new RateLimiter().load(this.#rows!.limiters, row * LIMITER_NUMBERS);
    this.#forget(row);
    return policy !== undefined && limiter.isSetTo(policy) ? limiter : undefined;
  }

  keep(name: string, limiter: RateLimiter): void {
    if (limiter.isFull) return;
    if (CHECKED) assert(!this.#rowOf.has(name), "a tube leaves its bucket once");
    const rows = (this.#rows ??= new LimiterRows(this.#max));
    if (this.size === this.#max) this.forgetNext();
    const row = this.#freeRows.pop() ?? this.#names.length;
    assert(row < this.#max, "there is a row for each bucket");
    this.#names[row] = name;
    this.#rowOf.set(name, row);
    limiter.save(rows.limiters, row * LIMITER_NUMBERS);
    rows.fullAtMs[row] = limiter.fullAtMs;
    assert(rows.fullAtMs[row]! < Number.POSITIVE_INFINITY, "a bucket that is kept will be full");
    rows.push(row);
    this.#update();
  }

  #forget(row: number): void {
    assert(this.#names[row] !== "", "a bucket is forgotten once");
    this.#rows!.remove(row);
    this.#rowOf.delete(this.#names[row]!);
    this.#names[row] = "";
    this.#freeRows.push(row);
    this.#update();
  }

  #update(): void {
    const rows = this.#rows!;
    this.size = this.#rowOf.size;
    assert(this.size === rows.size, "each bucket has its row");
    this.nextAtMs = rows.size === 0 ? Number.POSITIVE_INFINITY : rows.fullAtMs[rows.top]!;
    this.#earliest?.changed();
  }
}
