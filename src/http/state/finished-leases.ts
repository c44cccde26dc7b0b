// Recently finished leases and the act that ended each one: a limited number of them, for some
// minutes.
//
// They are kept in columns, because a hundred thousand objects and token strings would keep V8
// collecting garbage. The job's id and its reserve count identify a lease. The entries form a ring
// whose oldest is overwritten first; entries in the same hash bucket form a list.

const NONE = -1;
const BUCKETS = 1 << 17;

/** The acts; the column holds their index. */
const ACTS = ["delete", "release", "bury", "touch"] as const;
type Act = (typeof ACTS)[number];

export class FinishedLeases {
  readonly #max: number;
  readonly #keptMs: number;
  readonly #ids: Float64Array;
  readonly #reserves: Uint32Array;
  readonly #atMs: Float64Array;
  readonly #acts: Uint8Array;
  /** Next entry of the same bucket. */
  readonly #next: Int32Array;
  /** First entry of each bucket. */
  readonly #first = new Int32Array(BUCKETS).fill(NONE);
  /** Position of the next entry. Once the ring is full, the oldest entry is there. */
  #at = 0;
  #isFull = false;

  /** Keeps up to `max` entries for `keptMs`. */
  constructor(max: number, keptMs: number) {
    this.#max = max;
    this.#keptMs = keptMs;
    this.#ids = new Float64Array(max);
    this.#reserves = new Uint32Array(max);
    this.#atMs = new Float64Array(max);
    this.#acts = new Uint8Array(max);
    this.#next = new Int32Array(max);
  }

  add(id: number, reserves: number, act: Act, nowMs: number): void {
    const entry = this.#at;
    if (this.#isFull) this.#forget(entry);
    this.#at = entry + 1 === this.#max ? 0 : entry + 1;
    if (this.#at === 0) this.#isFull = true;
    this.#ids[entry] = id;
    this.#reserves[entry] = reserves;
    this.#atMs[entry] = nowMs;
    this.#acts[entry] = ACTS.indexOf(act);
    const bucket = bucketOf(id, reserves);
    this.#next[entry] = this.#first[bucket]!;
    this.#first[bucket] = entry;
  }

  /** Returns the act that ended the lease, or undefined if it is not remembered. */
  actOf(id: number, reserves: number, nowMs: number): Act | undefined {
    for (let entry = this.#first[bucketOf(id, reserves)]!; entry !== NONE; entry = this.#next[entry]!)
      if (this.#ids[entry] === id && this.#reserves[entry] === reserves)
        return nowMs - this.#atMs[entry]! > this.#keptMs ? undefined : ACTS[this.#acts[entry]!];
    return undefined;
  }

  /** Removes an entry from its list. It is the last one there, because all others are newer. */
  #forget(entry: number): void {
    const bucket = bucketOf(this.#ids[entry]!, this.#reserves[entry]!);
    let before = NONE;
    for (let each = this.#first[bucket]!; each !== entry; each = this.#next[each]!) before = each;
    if (before === NONE) this.#first[bucket] = NONE;
    else this.#next[before] = NONE;
  }
}

function bucketOf(id: number, reserves: number): number {
  const mixed = Math.imul((id % 2 ** 32) ^ Math.imul(reserves, 0x85ebca6b), 0x9e3779b1);
  return (mixed ^ (mixed >>> 15)) & (BUCKETS - 1);
}
