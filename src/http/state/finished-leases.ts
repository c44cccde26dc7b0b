// Leases that have ended by what their workers asked for, and what that was: the last so many of some minutes.
//
// In columns, since a hundred thousand objects and texts of tokens make V8 collect all the time. A lease is known by its job's id and
// count of reserves, which no other has. Entries stand in a ring, the oldest goes first; those with the same hash are a list.

const NONE = -1;
const BUCKETS = 1 << 17;

/** What may have been asked; its number stands in the column. */
const ACTS = ["delete", "release", "bury", "touch"] as const;
type Act = (typeof ACTS)[number];

export class FinishedLeases {
  readonly #max: number;
  readonly #keptMs: number;
  readonly #ids: Float64Array;
  readonly #reserves: Uint32Array;
  readonly #atMs: Float64Array;
  readonly #acts: Uint8Array;
  /** The next entry of the same bucket. */
  readonly #next: Int32Array;
  /** The first entry of each bucket. */
  readonly #first = new Int32Array(BUCKETS).fill(NONE);
  /** Where the next entry goes; the one behind it is the oldest once the ring is full. */
  #at = 0;
  #isFull = false;

  /** As many as `max` are remembered, for `keptMs`. */
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

  /** What ended the lease; undefined if that is not remembered. */
  actOf(id: number, reserves: number, nowMs: number): Act | undefined {
    for (let entry = this.#first[bucketOf(id, reserves)]!; entry !== NONE; entry = this.#next[entry]!)
      if (this.#ids[entry] === id && this.#reserves[entry] === reserves)
        return nowMs - this.#atMs[entry]! > this.#keptMs ? undefined : ACTS[this.#acts[entry]!];
    return undefined;
  }

  /** Takes an entry out of its list: it is the last there, since all others are younger. */
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
