// Token buckets of deleted tubes, so that a tube that is soon recreated doesn't get a full one.
//
// A bucket is forgotten as soon as it would be full, since a new tube's bucket is full. With low
// rates this may take years, so the number of buckets is limited; the first to be full is forgotten
// first.

import { assert, CHECKED } from "../../base/assert.ts";
import type { EarliestTime } from "../queues/earliest-time.ts";
import { IndexedHeap } from "../queues/indexed-heap.ts";
import { LIMITER_NUMBERS, RateLimiter } from "./rate-limiter.ts";
import type { TubePolicy } from "./tube-settings.ts";

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
