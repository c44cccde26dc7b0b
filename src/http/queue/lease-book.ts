// Leases: what a worker over HTTP has of a job, as text that means nothing to it, and which of them are out.
//
//   byte  0  id of the job, 7 bytes
//   byte  7  shard, 1 byte
//   byte  8  the job's count of reserves, 4 bytes
//   byte 12  the first 8 bytes of an HMAC over these and the name of the owner
//
// Whether a lease still holds is decided by its shard, from the count of reserves. The table here serves limits and lists, and
// remembers what has been done, so that a request that is sent twice gets the same answer twice.

import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

const SIGNED_BYTES = 12;
const MAC_BYTES = 8;
const TOKEN = /^[\w-]{27}$/;
/** Leases that are out, at most, and those that are remembered when they have ended. */
export const LEASES_MAX = 100_000;
const FINISHED_MAX = 100_000;
const FINISHED_MS = 5 * 60_000;
/** A lease that has not been heard of for so long after its end is forgotten, ms. */
const SLACK_MS = 1000;

/** What a lease names. */
export interface LeaseKey {
  readonly id: number;
  readonly shard: number;
  readonly reserves: number;
}

/** A lease that is out, as far as is known here. */
export interface Lease extends LeaseKey {
  readonly token: string;
  readonly tube: string;
  readonly ttr: number;
  /** Who took it: a name, and the address. */
  readonly owner: string;
  readonly address: string;
  /** Monotonic ms. */
  readonly sinceMs: number;
  untilMs: number;
}

interface Finished {
  /** What was asked, and what came of it. */
  readonly act: string;
  readonly atMs: number;
}

export class LeaseBook {
  readonly #key = randomBytes(32);
  readonly #nowMs: () => number;
  readonly #leases = new Map<string, Lease>();
  /** Oldest first. */
  readonly #finished = new Map<string, Finished>();
  /** Leases that were asked for something after their end. */
  ended = 0;
  /** Jobs that went back because nobody was there to take them. */
  abandoned = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** How many more may be given out. */
  get room(): number {
    if (this.#leases.size >= LEASES_MAX) this.sweep();
    return LEASES_MAX - this.#leases.size;
  }

  get size(): number {
    return this.#leases.size;
  }

  /** The leases that are out, oldest first. */
  list(): Lease[] {
    this.sweep();
    return [...this.#leases.values()];
  }

  give(lease: Omit<Lease, "token">): Lease {
    const given = { ...lease, token: this.#sign(lease, lease.owner) };
    this.#leases.set(given.token, given);
    return given;
  }

  /** What a token names; undefined if it is none that this server has given to this owner. */
  read(token: string, owner: string): LeaseKey | undefined {
    const out = this.#leases.get(token);
    if (out?.owner === owner) return out;
    if (!TOKEN.test(token)) return undefined;
    const bytes = Buffer.from(token, "base64url");
    const key = {
      id: bytes.readUIntBE(0, 3) * 2 ** 32 + bytes.readUInt32BE(3),
      shard: bytes.readUInt8(7),
      reserves: bytes.readUInt32BE(8),
    };
    const mac = this.#mac(bytes.subarray(0, SIGNED_BYTES), owner);
    return timingSafeEqual(mac, bytes.subarray(SIGNED_BYTES)) ? key : undefined;
  }

  /** What was done last with a lease that has ended, if it is remembered. */
  finishedBy(token: string): string | undefined {
    const finished = this.#finished.get(token);
    return finished === undefined || this.#nowMs() - finished.atMs > FINISHED_MS ? undefined : finished.act;
  }

  /** The lease has ended by this. */
  finish(token: string, act: string): void {
    this.#leases.delete(token);
    this.#finished.set(token, { act, atMs: this.#nowMs() });
    while (this.#finished.size > FINISHED_MAX) this.#finished.delete(this.#finished.keys().next().value!);
  }

  /** The lease lasts for its time to run from now on. */
  renew(token: string): Lease | undefined {
    const lease = this.#leases.get(token);
    if (lease !== undefined) lease.untilMs = this.#nowMs() + lease.ttr * 1000;
    return lease;
  }

  forget(token: string): void {
    this.#leases.delete(token);
  }

  /** Forgets those whose time is over. */
  sweep(): void {
    const nowMs = this.#nowMs();
    for (const [token, { untilMs }] of this.#leases)
      if (untilMs + SLACK_MS < nowMs) this.#leases.delete(token);
    for (const [token, { atMs }] of this.#finished) {
      if (nowMs - atMs <= FINISHED_MS) break;
      this.#finished.delete(token);
    }
  }

  #sign({ id, shard, reserves }: LeaseKey, owner: string): string {
    const bytes = Buffer.alloc(SIGNED_BYTES + MAC_BYTES);
    bytes.writeUIntBE(Math.floor(id / 2 ** 32), 0, 3);
    bytes.writeUInt32BE(id % 2 ** 32, 3);
    bytes.writeUInt8(shard, 7);
    bytes.writeUInt32BE(reserves, 8);
    this.#mac(bytes.subarray(0, SIGNED_BYTES), owner).copy(bytes, SIGNED_BYTES);
    return bytes.toString("base64url");
  }

  #mac(bytes: Uint8Array, owner: string): Buffer {
    return createHmac("sha256", this.#key).update(bytes).update(owner).digest().subarray(0, MAC_BYTES);
  }
}
