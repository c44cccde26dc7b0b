// Leases: what a worker over HTTP has of a job, as text that means nothing to it, and which of them are out.
//
//   byte  0  id of the job, 7 bytes
//   byte  7  shard, 1 byte
//   byte  8  the job's count of reserves, 4 bytes
//   byte 12  the first 8 bytes of an HMAC over these and the name of the owner
//
// Whether a lease still holds is decided by its shard, from the count of reserves. The table here serves limits and lists, and
// remembers what has been done, so that a request that is sent twice gets the same answer twice.

import { randomBytes, timingSafeEqual } from "node:crypto";
import type { LeaseChange } from "../../message/control.ts";
import { FinishedLeases } from "./finished-leases.ts";
import { leaseMac } from "./lease-mac.ts";

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

/** What a shard was asked, and who waits for what comes of it. */
interface Finishing {
  readonly reserves: number;
  readonly act: LeaseChange["act"];
  over: PromiseWithResolvers<void> | undefined;
}

const idIn = (bytes: Buffer): number => bytes.readUIntBE(0, 3) * 2 ** 32 + bytes.readUInt32BE(3);

export class LeaseTable {
  readonly #mac = leaseMac(randomBytes(32));
  readonly #nowMs: () => number;
  /** By the id of the job, which has one lease at a time. Ids cost less than texts of tokens. */
  readonly #leases = new Map<number, Lease>();
  readonly #finished = new FinishedLeases(FINISHED_MAX, FINISHED_MS);
  /** By the id of the job. */
  readonly #finishing = new Map<number, Finishing>();
  readonly #bytes = Buffer.alloc(SIGNED_BYTES + MAC_BYTES);
  readonly #signed = this.#bytes.subarray(0, SIGNED_BYTES);
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
    // Behind all others, also if the job was leased before.
    this.#leases.delete(given.id);
    this.#leases.set(given.id, given);
    return given;
  }

  /** What a token names; undefined if it is none that this server has given to this owner. */
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

  /** What was done last with a lease that has ended, if it is remembered. */
  finishedBy({ id, reserves }: LeaseKey): string | undefined {
    return this.#finished.actOf(id, reserves, this.#nowMs());
  }

  /**
   * A shard is asked to end the lease by this. Until it has answered, which takes as long as its disk does, a request that is sent again is
   * neither the first nor known as done.
   */
  beginFinish({ id, reserves }: LeaseKey, act: LeaseChange["act"]): void {
    // One that asks for something else comes too late, and for the first somebody may wait.
    if (!this.#finishing.has(id)) this.#finishing.set(id, { reserves, act, over: undefined });
  }

  /** The shard has answered, or can't be asked. */
  endFinish({ id, reserves }: LeaseKey, act: LeaseChange["act"]): void {
    const finishing = this.#finishing.get(id);
    if (finishing === undefined || finishing.reserves !== reserves || finishing.act !== act) return;
    this.#finishing.delete(id);
    finishing.over?.resolve();
  }

  /** Resolves when it is known whether the lease has ended by this; undefined where no shard is asked for that. */
  whenFinishedBy({ id, reserves }: LeaseKey, act: LeaseChange["act"]): Promise<void> | undefined {
    const finishing = this.#finishing.get(id);
    if (finishing === undefined || finishing.reserves !== reserves || finishing.act !== act) return undefined;
    finishing.over ??= Promise.withResolvers<void>();
    return finishing.over.promise;
  }

  /** The lease has ended by this. */
  finish(key: LeaseKey, act: LeaseChange["act"]): void {
    this.forget(key);
    this.#finished.add(key.id, key.reserves, act, this.#nowMs());
  }

  /** The lease lasts for its time to run from now on. */
  renew(token: string, owner: string): Lease | undefined {
    const key = this.read(token, owner);
    const lease = key === undefined ? undefined : this.#leases.get(key.id);
    if (lease?.token !== token) return undefined;
    lease.untilMs = this.#nowMs() + lease.ttr * 1000;
    return lease;
  }

  /** The job may have another lease meanwhile, which stays. */
  forget({ id, reserves }: LeaseKey): void {
    if (this.#leases.get(id)?.reserves === reserves) this.#leases.delete(id);
  }

  /** Forgets those whose time is over. */
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
    // Its first bytes.
    bytes.write(this.#mac(this.#signed, owner), SIGNED_BYTES, MAC_BYTES, "latin1");
    return bytes.toString("base64url");
  }
}
