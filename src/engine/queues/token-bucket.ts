// Token buckets: of a tube, and of each group of its jobs.

import { assert, CHECKED } from "../../base/assert.ts";
import type { SettingValues } from "../../schema/setting.ts";
import { type EarliestTime, IndexedHeap } from "./heaps.ts";

/** The number of values that `save` writes. */
const BUCKET_NUMBERS = 4;

/** The settings of a bucket: a rate as in "5/60", or "", and the number of tokens that it holds. */
export type BucketSettings = Pick<SettingValues, "rate" | "burst">;

/** Gives tokens at a rate. A job takes as many as it costs. */
export class TokenBucket {
  /** Tokens per millisecond; 0 for no limit. */
  #rate = 0;
  #burst = 0;
  #tokens = 0;
  #atMs = 0;

  /** Applies new settings. A new bucket is full. */
  set({ rate, burst }: BucketSettings, nowMs: number): this {
    const burstMin1 = Math.max(1, burst);
    if (this.#rate === 0) this.#tokens = burstMin1;
    else this.#refill(nowMs);
    this.#atMs = Math.max(this.#atMs, nowMs);
    this.#rate = perMs(rate);
    this.#burst = burstMin1;
    this.#tokens = Math.min(this.#tokens, burstMin1);
    assert(this.#rate >= 0 && this.#tokens >= -Number.MAX_VALUE, "a bucket has a rate and its tokens");
    return this;
  }

  /** Returns the current number of tokens; Infinity without a rate. */
  tokens(nowMs: number): number {
    if (this.#rate === 0) return Number.POSITIVE_INFINITY;
    this.#refill(nowMs);
    return this.#tokens;
  }

  /** Returns whether it already has these settings. */
  isSetTo({ rate, burst }: BucketSettings): boolean {
    return perMs(rate) === this.#rate && Math.max(1, burst) === this.#burst;
  }

  /** Whether a new bucket would be equivalent. */
  get isFull(): boolean {
    return this.#rate === 0 || this.#tokens >= this.#burst;
  }

  /** When that will be the case if no job is reserved until then, ms. */
  get fullAtMs(): number {
    return this.#hasAtMs(this.#burst);
  }

  /** Writes the state of the bucket as BUCKET_NUMBERS numbers. */
  save(numbers: Float64Array, at: number): void {
    assert(at >= 0 && at + BUCKET_NUMBERS <= numbers.length, "a bucket is saved in its row");
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

  /** Returns whether it has the tokens for a job. One that costs more than it holds needs all. */
  hasFor(cost: number, nowMs: number): boolean {
    return this.#rate === 0 || this.tokens(nowMs) >= Math.min(cost, this.#burst);
  }

  /**
   * Counts a reservation. One by id ignores the limit, and a job may cost more than the bucket
   * holds, so the number of tokens may become negative.
   */
  took(nowMs: number, cost = 1): void {
    if (this.#rate === 0) return;
    this.#refill(nowMs);
    this.#tokens = Math.max(-Math.max(this.#burst, cost), this.#tokens - cost);
    assert(this.#tokens <= this.#burst, "a bucket that gave a token has no more than its burst");
  }

  /**
   * Returns when there will be tokens for a job, ms; Infinity if there are already or there is no
   * rate.
   */
  tokenAtMs(nowMs: number, cost = 1): number {
    return this.hasFor(cost, nowMs) ? Number.POSITIVE_INFINITY : this.#hasAtMs(Math.min(cost, this.#burst));
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

// Token buckets of deleted tubes, or of groups without jobs, so that one that soon exists again
// doesn't get a full one.
//
// A bucket is forgotten as soon as it would be full, since a new one is full. With low rates this
// may take years, so the number of buckets is limited; the first to be full is forgotten first.

/** Maximum number of buckets of tubes per shard. */
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
    this.limiters = new Float64Array(rows * BUCKET_NUMBERS);
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
   * Returns the bucket of a tube or group that exists again, as a new `Kind`. Returns undefined if
   * none was kept, or if the rate has changed meanwhile: the time of that change is unknown.
   */
  take<Bucket extends TokenBucket>(
    name: string,
    settings: BucketSettings | undefined,
    Kind: new () => Bucket,
  ): Bucket | undefined {
    const row = this.#rowOf.get(name);
    if (row === undefined) return undefined;
    assert(this.#names[row] === name, "a bucket has the name of its tube");
    const bucket = new Kind().load(this.#rows!.limiters, row * BUCKET_NUMBERS);
    this.#forget(row);
    return settings !== undefined && bucket.isSetTo(settings) ? bucket : undefined;
  }

  keep(name: string, limiter: TokenBucket): void {
    if (limiter.isFull) return;
    if (CHECKED) assert(!this.#rowOf.has(name), "a tube leaves its bucket once");
    const rows = (this.#rows ??= new LimiterRows(this.#max));
    if (this.size === this.#max) this.forgetNext();
    const row = this.#freeRows.pop() ?? this.#names.length;
    assert(row < this.#max, "there is a row for each bucket");
    this.#names[row] = name;
    this.#rowOf.set(name, row);
    limiter.save(rows.limiters, row * BUCKET_NUMBERS);
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
