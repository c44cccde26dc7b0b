// Token buckets of tubes that are gone: a tube that comes back soon does not find its bucket full for that.
//
// A bucket is forgotten as soon as it would be full again, since a new tube's bucket is full. Rates may be so low that this takes
// years: beyond a number of buckets, those that are full first are forgotten first.

import type { EarliestTime } from "../queues/earliest-time.ts";
import { IndexedHeap } from "../queues/indexed-heap.ts";
import { GATE_NUMBERS, RateLimiter } from "./rate-limiter.ts";
import type { TubePolicy } from "./tube-settings.ts";

/** Buckets that a shard keeps at most. */
export const GATES_MAX = 10000;

/** Rows of numbers, the one whose bucket is full next on top: objects would live just long enough to be V8's old ones. */
class GateRows extends IndexedHeap {
  /** For each row what a gate saves. */
  readonly gates: Float64Array;
  readonly fullAtMs: Float64Array;
  readonly #positions: Int32Array;

  constructor(rows: number) {
    super();
    this.gates = new Float64Array(rows * GATE_NUMBERS);
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
  /** When the next bucket is full, or Infinity. */
  nextAtMs: number = Number.POSITIVE_INFINITY;
  readonly #rowOf = new Map<string, number>();
  /** The tube of each row. */
  readonly #names: string[] = [];
  readonly #freeRows: number[] = [];
  #rows: GateRows | undefined;
  readonly #max: number;
  readonly #earliest: EarliestTime | undefined;

  /** `earliest` is kept up to date with `nextAtMs`. */
  constructor(earliest?: EarliestTime, max = GATES_MAX) {
    this.#max = max;
    this.#earliest = earliest;
    earliest?.join(this);
  }

  get size(): number {
    return this.#rowOf.size;
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
   * Hands out the gate of a tube that is there again. Returns undefined if none was kept, or if its rate is another one now: nobody has
   * noted since when.
   */
  take(name: string, policy: TubePolicy | undefined): RateLimiter | undefined {
    const row = this.#rowOf.get(name);
    if (row === undefined) return undefined;
    const gate = new RateLimiter().load(this.#rows!.gates, row * GATE_NUMBERS);
    this.#forget(row);
    return policy !== undefined && gate.isSetTo(policy) ? gate : undefined;
  }

  keep(name: string, gate: RateLimiter): void {
    if (gate.isFull) return;
    const rows = (this.#rows ??= new GateRows(this.#max));
    if (this.size === this.#max) this.forgetNext();
    const row = this.#freeRows.pop() ?? this.#names.length;
    this.#names[row] = name;
    this.#rowOf.set(name, row);
    gate.save(rows.gates, row * GATE_NUMBERS);
    rows.fullAtMs[row] = gate.fullAtMs;
    rows.push(row);
    this.#retime();
  }

  #forget(row: number): void {
    this.#rows!.remove(row);
    this.#rowOf.delete(this.#names[row]!);
    this.#names[row] = "";
    this.#freeRows.push(row);
    this.#retime();
  }

  #retime(): void {
    const rows = this.#rows!;
    this.nextAtMs = rows.size === 0 ? Number.POSITIVE_INFINITY : rows.fullAtMs[rows.top]!;
    this.#earliest?.changed();
  }
}
