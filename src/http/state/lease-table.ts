// Leases of HTTP workers: their opaque tokens, and a table of the outstanding ones. A token
// contains:
//
//   byte  0  id of the job, 7 bytes
//   byte  7  shard, 1 byte
//   byte  8  the job's reserve count, 4 bytes
//   byte 12  first 8 bytes of an HMAC over these and the owner's name
//
// The job's shard decides by the reserve count whether a lease is still valid. This table serves
// limits and lists, and remembers finished leases, so that a retried request gets the same
// response.

import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { LeaseChange } from "../../message/control.ts";

// HMAC-SHA256 of leases (RFC 2104), built from two hashes: Node's own HMAC creates objects and
// takes several times as long.

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
/** Longer messages get a buffer of their own. */
const SCRATCH_BYTES = 512;

/**
 * Returns a function that computes the digest of `bytes` followed by `text`, as a string of 32
 * one-byte characters. `key` has at most 64 bytes.
 */
export function leaseMac(key: Uint8Array): (bytes: Uint8Array, text: string) => string {
  const inner = Buffer.alloc(BLOCK_BYTES + SCRATCH_BYTES);
  const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES);
  for (let at = 0; at < BLOCK_BYTES; at++) {
    inner[at] = (key[at] ?? 0) ^ 0x36;
    outer[at] = (key[at] ?? 0) ^ 0x5c;
  }
  return (bytes, text) => {
    const textBytes = text === "" ? 0 : Buffer.byteLength(text);
    const length = BLOCK_BYTES + bytes.length + textBytes;
    const message = length <= inner.length ? inner : Buffer.concat([inner.subarray(0, BLOCK_BYTES)], length);
    message.set(bytes, BLOCK_BYTES);
    if (textBytes > 0) message.write(text, BLOCK_BYTES + bytes.length);
    outer.write(hash("sha256", message.subarray(0, length), "latin1"), BLOCK_BYTES, "latin1");
    return hash("sha256", outer, "latin1");
  };
}

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

const SIGNED_BYTES = 12;
const MAC_BYTES = 8;
const TOKEN = /^[\w-]{27}$/;
/** Limits of outstanding leases and of remembered finished ones. */
export const LEASES_MAX = 100_000;
const FINISHED_MAX = 100_000;
const FINISHED_MS = 5 * 60_000;
/** An expired lease is removed after this grace period, ms. */
const SLACK_MS = 1000;

/** Identity of a lease. */
export interface LeaseKey {
  readonly id: number;
  readonly shard: number;
  readonly reserves: number;
}

/** An outstanding lease, as far as this thread knows. */
export interface Lease extends LeaseKey {
  readonly token: string;
  readonly tube: string;
  readonly ttr: number;
  /** Name and address of the client. */
  readonly owner: string;
  readonly address: string;
  /** Monotonic, ms. */
  readonly sinceMs: number;
  untilMs: number;
}

/** Returns the name of a worker over HTTP: its token's, or its address. */
export const workerOf = ({ owner, address }: Pick<Lease, "owner" | "address">): string =>
  owner || address || "unix";

/** A question to a shard, and the requests that wait for its outcome. */
interface Finishing {
  readonly reserves: number;
  readonly act: LeaseChange["act"];
  over: PromiseWithResolvers<void> | undefined;
}

const idIn = (bytes: Buffer): number => bytes.readUIntBE(0, 3) * 2 ** 32 + bytes.readUInt32BE(3);

export class LeaseTable {
  readonly #mac = leaseMac(randomBytes(32));
  readonly #nowMs: () => number;
  /** Leases by job id, since a job has one at a time. Ids cost less memory than tokens. */
  readonly #leases = new Map<number, Lease>();
  readonly #finished = new FinishedLeases(FINISHED_MAX, FINISHED_MS);
  /** Pending questions by job id. */
  readonly #finishing = new Map<number, Finishing>();
  readonly #bytes = Buffer.alloc(SIGNED_BYTES + MAC_BYTES);
  readonly #signed = this.#bytes.subarray(0, SIGNED_BYTES);
  /** Counter of requests with a lease that had ended. */
  ended = 0;
  /** Counter of jobs that went back because their client had disconnected. */
  abandoned = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Number of further leases that may be given out. */
  get room(): number {
    if (this.#leases.size >= LEASES_MAX) this.sweep();
    return LEASES_MAX - this.#leases.size;
  }

  get size(): number {
    return this.#leases.size;
  }

  /** Returns the outstanding leases, oldest first. */
  list(): Lease[] {
    this.sweep();
    return [...this.#leases.values()];
  }

  /** Returns the name of the worker that leased a job, if this thread knows of one. */
  workerOf(job: number): string | undefined {
    const lease = this.#leases.get(job);
    return lease === undefined ? undefined : workerOf(lease);
  }

  give(lease: Omit<Lease, "token">): Lease {
    const given = { ...lease, token: this.#sign(lease, lease.owner) };
    // Moves it to the end, even if the job was leased before.
    this.#leases.delete(given.id);
    this.#leases.set(given.id, given);
    return given;
  }

  /**
   * Returns the lease that a token names; undefined if this server never gave that token to this
   * owner.
   */
  read(token: string, owner: string): LeaseKey | undefined {
    if (!TOKEN.test(token)) return undefined;
    const bytes = Buffer.from(token, "base64url");
    const id = idIn(bytes);
    const out = this.#leases.get(id);
    if (out?.token === token && out.owner === owner) return out;
    const key = { id, shard: bytes.readUInt8(7), reserves: bytes.readUInt32BE(8) };
    const mac = Buffer.from(this.#mac(bytes.subarray(0, SIGNED_BYTES), owner), "latin1");
    return timingSafeEqual(mac.subarray(0, MAC_BYTES), bytes.subarray(SIGNED_BYTES)) ? key : undefined;
  }

  finishedBy({ id, reserves }: LeaseKey): string | undefined {
    return this.#finished.actOf(id, reserves, this.#nowMs());
  }

  /**
   * Records that a shard was asked to finish the lease. Until it answers, which takes as long as
   * its disk, a retry must be told apart from both a first request and a finished one.
   */
  beginFinish({ id, reserves }: LeaseKey, act: LeaseChange["act"]): void {
    // A different act comes too late, and other requests may wait for the first one.
    if (!this.#finishing.has(id)) this.#finishing.set(id, { reserves, act, over: undefined });
  }

  /** Records that the shard has answered or can't be asked. */
  endFinish({ id, reserves }: LeaseKey, act: LeaseChange["act"]): void {
    const finishing = this.#finishing.get(id);
    if (finishing === undefined || finishing.reserves !== reserves || finishing.act !== act) return;
    this.#finishing.delete(id);
    finishing.over?.resolve();
  }

  /**
   * Resolves once the outcome of the same act in progress is known. Returns undefined if there is
   * none.
   */
  whenFinishedBy({ id, reserves }: LeaseKey, act: LeaseChange["act"]): Promise<void> | undefined {
    const finishing = this.#finishing.get(id);
    if (finishing === undefined || finishing.reserves !== reserves || finishing.act !== act) return undefined;
    finishing.over ??= Promise.withResolvers<void>();
    return finishing.over.promise;
  }

  /** Records that the act has finished the lease. */
  finish(key: LeaseKey, act: LeaseChange["act"]): void {
    this.forget(key);
    this.#finished.add(key.id, key.reserves, act, this.#nowMs());
  }

  /** Restarts the lease's time to run. */
  renew(token: string, owner: string): Lease | undefined {
    const key = this.read(token, owner);
    const lease = key === undefined ? undefined : this.#leases.get(key.id);
    if (lease?.token !== token) return undefined;
    lease.untilMs = this.#nowMs() + lease.ttr * 1000;
    return lease;
  }

  /** Removes the lease, unless the job has a newer one by now. */
  forget({ id, reserves }: LeaseKey): void {
    if (this.#leases.get(id)?.reserves === reserves) this.#leases.delete(id);
  }

  /** Removes expired leases. */
  sweep(): void {
    const nowMs = this.#nowMs();
    for (const [id, { untilMs }] of this.#leases) if (untilMs + SLACK_MS < nowMs) this.#leases.delete(id);
  }

  #sign({ id, shard, reserves }: LeaseKey, owner: string): string {
    const bytes = this.#bytes;
    bytes.writeUIntBE(Math.floor(id / 2 ** 32), 0, 3);
    bytes.writeUInt32BE(id % 2 ** 32, 3);
    bytes[7] = shard;
    bytes.writeUInt32BE(reserves, 8);
    // Writes only the first bytes of the MAC.
    bytes.write(this.#mac(this.#signed, owner), SIGNED_BYTES, MAC_BYTES, "latin1");
    return bytes.toString("base64url");
  }
}
